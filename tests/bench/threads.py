"""What the threads of a process do: CPU and wakes of those with one purpose, from Linux's /proc.

A thread's purpose is its name without numbers. The kernel keeps 15 characters of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support.process_tree import PROC, family

NUMBER = re.compile(r"\d+")
MOST = 12  # purposes of which something is said
WAKES = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a thread has done since it began. It wakes as often as it has waited."""

    purpose: str
    cpu_seconds: float
    wakes: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The threads of one purpose, over a time."""

    purpose: str
    threads: int
    cores: float
    wakes_per_second: float


def readings(pid: int) -> dict[Path, Reading]:
    """The threads of the process *pid* and of its descendants."""
    folders = (task for member in family(pid) for task in (PROC / str(member)).glob("task/*"))
    found = ((folder, _reading(folder)) for folder in folders)
    return {folder: reading for folder, reading in found if reading is not None}


def activities(
    before: Mapping[Path, Reading], after: Mapping[Path, Reading], seconds: float
) -> list[Activity]:
    """What the threads of *after* have done in the *seconds* since *before*, the busiest first."""
    purposes = {reading.purpose for reading in after.values()}
    found = (_activity(purpose, before, after, seconds) for purpose in purposes)
    return sorted(found, key=lambda activity: activity.cores, reverse=True)[:MOST]


def print_activities(console: Console, title: str, found: Iterable[Activity]) -> None:
    """Prints a table with a line for each of *found*."""
    table = Table(title=title, title_justify="left")
    table.add_column("threads")
    for heading in ("number", "% of a core", "wakes a second"):
        table.add_column(heading, justify="right")
    for use in found:
        wakes = f"{use.wakes_per_second:,.1f}"
        table.add_row(use.purpose, f"{use.threads:,}", f"{use.cores:.2%}".rstrip("%"), wakes)
    console.print(table)


def _reading(folder: Path) -> Reading | None:
    try:
        name = (folder / "comm").read_text(errors="replace").strip()
        nanoseconds = int((folder / "schedstat").read_text().split()[0])
        wakes = WAKES.search((folder / "status").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None  # it has ended meanwhile
    return Reading(NUMBER.sub("#", name), nanoseconds / 1e9, int(wakes[1]) if wakes else 0)


def _activity(
    purpose: str, before: Mapping[Path, Reading], after: Mapping[Path, Reading], seconds: float
) -> Activity:
    mine = {at: reading for at, reading in after.items() if reading.purpose == purpose}
    new = Reading(purpose, 0.0, 0)
    cpu_seconds = sum(
        thread.cpu_seconds - before.get(at, new).cpu_seconds for at, thread in mine.items()
    )
    wakes = sum(thread.wakes - before.get(at, new).wakes for at, thread in mine.items())
    return Activity(purpose, len(mine), cpu_seconds / seconds, wakes / seconds)
