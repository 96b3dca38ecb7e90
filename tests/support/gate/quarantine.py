"""Tests that are known to fail now and then: they run and are shown, and do not decide."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from tests.support.local import REPOSITORY

FILE: Final = REPOSITORY / "tests" / "quarantine.txt"
MOST: Final = 5
LONGEST: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: the test, since when, why, and what will mend it."""

    nodeid: str
    since: date
    reason: str
    mended_by: str


def entries(text: str) -> list[Entry]:
    """Reads the lines of the file: four fields between ``|``; a line with ``#`` is a comment."""
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            nodeid, since, reason, mended_by = (field.strip() for field in line.split("|"))
            found.append(Entry(nodeid, date.fromisoformat(since), reason, mended_by))
    return found


def problems(found: list[Entry], today: date) -> list[str]:
    """What is wrong with the file; empty if nothing is."""
    wrong = [f"more than {MOST} lines"] if len(found) > MOST else []
    for entry in found:
        if not entry.reason or not entry.mended_by:
            wrong.append(f"{entry.nodeid}: the reason or what mends it is missing")
        if not today - LONGEST <= entry.since <= today:
            wrong.append(f"{entry.nodeid}: since {entry.since}, over {LONGEST.days} days ago")
    return wrong
