"""In which order the test files run, and which of them share a process of pytest.

Several processes take one file after the other, each with brokers and a session of its own. The
files with the longest tests come first, so that all processes end at about the same time.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

FIRST = ("job", "cluster", "spark")
"""Markers of the slowest tests, slowest first."""

SECURED = "secured brokers"
SHARING: Mapping[str, str] = {
    f"tests/cluster/test_{name}.py": SECURED
    for name in ("client_jars", "lost_acls", "least_privilege", "secured", "secured_flows")
}
"""Files that run in one process, because what they share is slow to start."""


class FilesInTurn(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each process the next file, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:  # noqa: ANN401 - xdist's own
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return SHARING.get(file, file)


def sort_slowest_first(items: list[pytest.Item]) -> None:
    """Sorts by file: those with tests of the first marker, of the second, and so on."""
    ranks: dict[str, int] = {}
    for item in items:
        file = _file(item)
        ranks[file] = min(_rank(item), ranks.get(file, len(FIRST)))
    items.sort(key=lambda item: (ranks[_file(item)], SHARING.get(_file(item), "")))


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::", 1)[0]


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, name in enumerate(FIRST) if name in item.keywords), len(FIRST))
