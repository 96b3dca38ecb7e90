"""The end of a generation: what executors report late counts, and nothing is said too early."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from replication.errors import StateError
from replication.flows.replicate import map_writer as reports_module
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.map_writer import LeaderLooks, Reports
from replication.model import Flow, Position, TopicPartition
from replication.offsets.pending import Copied, RecordRejection, Report
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.topics.topic_plan import TopicPlan

FLOW = Flow("A", "B")
TP, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
OTHER = TopicPartition("t", 1)
PLAN = TopicPlan({"t": "A.t"}, (), {}, (TP, OTHER), {"t": "id"}, {"A.t": "remote id"})
START = {TP: Position(10, 5), OTHER: Position(0, 0)}
REJECTED = RecordRejection(0, "RecordTooLargeException: too large")


def run(start: int, end: int) -> Report:
    return Report([OffsetRun(start, end, start - 5, end - start)])


class World:
    """Executors, a query and the offset map: what is reported when, and what was written."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.acts: list[str] = []
        self.reported: list[tuple[TopicPartition, Any]] = [(COPY, run(10, 12))]
        self.in_flight: list[tuple[TopicPartition, Any]] = [
            (COPY, Copied(7, 1000, 1000)),
            (TopicPartition("A.t", 1), REJECTED),
            (COPY, run(12, 15)),
        ]
        self.written: dict[TopicPartition, Sequence[OffsetRun]] = {}
        self.rejected: dict[TopicPartition, RecordRejection] = {}
        self.copied: list[tuple[TopicPartition, Copied]] = []
        self.failing: Exception | None = None
        self.flow, self.interval_seconds = FLOW, 3600
        silent = SimpleNamespace(outages=SimpleNamespace(are_answering=False))
        self.leaders = LeaderLooks(silent, {})  # type: ignore[arg-type]
        patch.setattr(reports_module, "is_reported", lambda _: True)
        patch.setattr(reports_module, "Acknowledged", lambda *_: self)
        patch.setattr(reports_module, "await_silence", self.await_silence)

    # Executors, by way of the driver

    def take(self) -> Iterator[tuple[TopicPartition, Any]]:
        taken, self.reported = self.reported, []
        yield from taken

    def is_quiet(self, *_: object) -> bool:
        return False

    def await_silence(self, _spark: object, flow: Flow, seconds: float) -> str:
        self.acts.append(f"silence of {flow} for {seconds} s")
        if "query stopped" in self.acts:
            self.reported += self.in_flight
            self.in_flight = []
        return ""

    def close(self) -> None:
        self.acts.append("reports closed")
        self.reported = []

    # Queries

    progress = (SimpleNamespace(query=None, newest=""),)

    def stop(self) -> None:
        self.acts.append("query stopped")

    def start_second(self) -> None: ...

    def finished(self, _starts: object) -> list[object]:
        return []

    # The offset map, the looks at topic ids, the board

    def record(self, *_: object) -> None: ...

    def write_or_keep(self, finished: FinishedRuns) -> None:
        if self.failing:
            raise self.failing
        self.written.update(finished.runs)
        self.acts.append("map")

    def want(self, _topics: object) -> int:
        return 1

    def look_again(self) -> int:
        self.acts.append("topics looked at")
        return 1

    def is_same(self, _topic: str, _look: int) -> bool:
        return "topics looked at" in self.acts

    def add(self, runs: Mapping[TopicPartition, Sequence[OffsetRun]]) -> None: ...

    def add_copied(self, copied: list[tuple[TopicPartition, Copied]]) -> None:
        self.copied += copied

    def generation(self, folder: Path) -> Generation:
        config = SimpleNamespace(flow=FLOW, offset_syncs=SimpleNamespace(lag_max=100))
        context: Any = SimpleNamespace(config=config, spark=None, metrics=self, tables=self)
        reports, queries, looks = Reports(context, PLAN, 3), self, self
        return Generation(queries, (self, looks), PLAN, START, reports, folder)  # type: ignore[arg-type]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_what_was_in_flight_when_the_query_stopped_is_in_the_map(
    world: World, tmp_path: Path
) -> None:
    ends = world.generation(tmp_path / "folder").close()

    assert ends == {TP: Position(15, 10), OTHER: Position(0, 0)}
    assert world.written[TP][-1].end == Position(15, 10)
    assert world.rejected == {OTHER: REJECTED}
    assert world.copied == [(TP, Copied(7, 1000, 1000))]
    assert world.acts == [
        "query stopped",
        "silence of A->B for 5 s",
        "topics looked at",
        "map",
        "reports closed",
    ]


def test_a_rejection_that_is_asked_for_waits_for_the_last_reports(
    world: World, tmp_path: Path
) -> None:
    generation = world.generation(tmp_path)
    generation.record_progress()
    assert generation.rejected_so_far == {}

    assert generation.rejected() == {OTHER: REJECTED}
    assert world.acts[:2] == ["query stopped", "silence of A->B for 5 s"]


def test_what_came_before_a_report_that_contradicts_is_kept_and_nothing_behind_it(
    world: World, tmp_path: Path
) -> None:
    world.in_flight = [
        (COPY, Copied(7, 1000, 1000)),
        (TopicPartition("A.t", 1), REJECTED),
        (COPY, Report([OffsetRun(99, 100, 2, 1)])),  # beside what was reported before
        (COPY, Copied(8, 1001, 1001)),
    ]
    ends = world.generation(tmp_path).close()

    assert ends[TP] == Position(12, 7)
    assert world.written[TP][-1].end == Position(12, 7)
    assert world.rejected == {OTHER: REJECTED}
    assert world.copied == [(TP, Copied(7, 1000, 1000))], "figures of what counts"
    assert world.acts[-1] == "reports closed"


def test_of_a_log_that_was_cut_nothing_is_written_that_the_cut_may_have_taken(
    world: World, tmp_path: Path
) -> None:
    world.leaders.cut = frozenset({TP})
    world.generation(tmp_path).close()

    assert world.written == {}


@pytest.mark.parametrize("error", [StateError("no space is left"), Py4JError("the JVM is gone")])
def test_reports_end_with_their_generation_whatever_fails(
    world: World, tmp_path: Path, error: Exception
) -> None:
    world.failing = error
    world.generation(tmp_path).close()

    assert world.rejected == {OTHER: REJECTED}
    assert world.acts[-1] == "reports closed"


def test_nothing_is_written_of_topics_that_were_not_looked_at_since(
    world: World, tmp_path: Path
) -> None:
    generation = world.generation(tmp_path)
    generation.record_progress()
    generation.write_pending()

    assert world.written == {}
