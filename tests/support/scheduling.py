"""In which order the test files run, and which of them share a process of pytest.

Several processes take one file after the other, each with brokers and a session of its own. Jobs
run in one of them at a time: each starts a Spark, and two of them starve each other.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.gate.choice import Place, file_of

FIRST = ("job", "cluster", "spark")
"""Markers of the slowest tests, slowest first."""

SECURED = "secured brokers"
SHARING: Mapping[str, str] = {
    f"tests/cluster/security/test_{name}.py": SECURED
    for name in ("client_jars", "lost_acls", "least_privilege", "secured", "secured_flows")
}
"""Files that run in one process, because what they share is slow to start."""


class FilesInTurn(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each process the next file, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:  # noqa: ANN401 - xdist's own
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._places: Mapping[str, Place] = {}
        self._jobs: frozenset[str] = frozenset()

    def schedule(self) -> None:
        """Learns from the gate, if it has chosen the tests, where each of them stands."""
        gate = self.config.pluginmanager.getplugin("gate")
        if self.collection is None and gate is not None:
            self._places = gate.places
            self._jobs = frozenset(place.scope for place in self._places.values() if place.is_job)
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        place = self._places.get(nodeid)
        return place.scope if place else SHARING.get(file_of(nodeid), file_of(nodeid))

    def _assign_work_unit(self, node: Any) -> None:  # noqa: ANN401 - xdist's own
        barred = self._jobs if self._has_job_elsewhere(node) else frozenset()
        scope = next((scope for scope in self.workqueue if scope not in barred), None)
        if scope is None:  # the process with the jobs does the rest
            node.shutdown()
            return
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _has_job_elsewhere(self, node: Any) -> bool:  # noqa: ANN401 - xdist's own
        return any(
            scope in self._jobs and not all(tests.values())
            for other, work in self.assigned_work.items()
            if other is not node
            for scope, tests in work.items()
        )


def sort_slowest_first(items: list[pytest.Item]) -> None:
    """Sorts by file: those with tests of the first marker, of the second, and so on."""
    ranks: dict[str, int] = {}
    for item in items:
        file = file_of(item.nodeid)
        ranks[file] = min(_rank(item), ranks.get(file, len(FIRST)))
    items.sort(key=lambda item: (ranks[file_of(item.nodeid)], _shared(item)))


def _shared(item: pytest.Item) -> str:
    return SHARING.get(file_of(item.nodeid), "")


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, name in enumerate(FIRST) if name in item.keywords), len(FIRST))
