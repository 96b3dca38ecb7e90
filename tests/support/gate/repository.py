"""What the repository tells the gate: its commits, what changed lately, imports, durations."""

import ast
import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.gate.choice import Durations, file_of
from tests.support.local import REPOSITORY

DURATIONS: Final = REPOSITORY / "tests" / "durations.json"
SHORTEST_SECONDS: Final = 1.0
"""Quicker unit tests are not worth a line."""
LATELY_SECONDS: Final = 12 * 3600


def turn() -> int:
    """The number of commits; of a clone without its history, a number that the commit gives."""
    if _git("rev-parse", "--is-shallow-repository") == ["true"]:
        return int(_git("rev-parse", "HEAD")[0][:8], 16)
    return int((_git("rev-list", "--count", "HEAD") or ["0"])[0])


def changed_lately() -> frozenset[str]:
    """Paths that were changed within 12 hours before the last commit, or are not committed."""
    last = _git("log", "-1", "--format=%ct")
    if not last:
        return frozenset()
    since = int(last[0]) - LATELY_SECONDS
    committed = _git("log", f"--since=@{since}", "--name-only", "--format=")
    uncommitted = [line[3:] for line in _git("status", "--porcelain")]
    return frozenset(filter(None, [*committed, *uncommitted]))


def _git(*arguments: str) -> list[str]:
    """The lines that git prints; none where git, or the history, is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), *arguments],  # noqa: S607 - the user's git
            check=False,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


@cache
def imports(file: Path) -> frozenset[str]:
    """The modules of the product and of the tests' support that *file* imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(name for name in found if name.startswith(("replication.", "tests.support.")))


@cache
def helped_by(file: Path) -> frozenset[str]:
    """The helpers of the tests that *file* needs, and the modules that they import for it."""
    found, asked = set[str](), set(imports(file))
    while asked:
        helper = REPOSITORY / f"{asked.pop().replace('.', '/')}.py"
        if helper.is_relative_to(REPOSITORY / "tests") and helper.exists():
            more = imports(helper) - found
            found |= more
            asked |= more
    return frozenset(found)


def durations() -> Durations:
    """What earlier runs have measured."""
    return Durations(json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {})


def write_durations(measured: Mapping[str, float]) -> None:
    """Renews the durations that were *measured*, and drops tests that do not exist any more.

    Args:
        measured: Seconds, of all the tests that passed.
    """
    known = {
        nodeid: round(seconds, 1)
        for nodeid, seconds in sorted({**durations().measured, **measured}.items())
        if seconds >= SHORTEST_SECONDS or not nodeid.startswith(("tests/unit/", "tests/house/"))
    }
    kept = {nodeid: seconds for nodeid, seconds in known.items() if _exists(nodeid)}
    DURATIONS.write_text(json.dumps(kept, indent=1) + "\n")


def _exists(nodeid: str) -> bool:
    file, name = REPOSITORY / file_of(nodeid), nodeid.rsplit("::", maxsplit=1)[-1].partition("[")[0]
    return file.exists() and f"def {name}(" in file.read_text(encoding="utf-8")
