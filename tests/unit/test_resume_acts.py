"""A process that writes down where its partitions resume is killed after each of its acts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from replication.flows.replicate import resume
from replication.flows.replicate.failures import QueryError
from replication.flows.replicate.resume import MOST_TRIES, Acceptances, settle_positions
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.guard import Resume
from replication.offsets.moved import Moving
from replication.offsets.runs import FinishedRuns, anchor
from replication.positions.find import Found
from replication.positions.survey import AskedPositions
from replication.state.requests import AcceptRequest, MoveRequest, Request
from replication.topics.topic_plan import TopicPlan
from tests.support.acts import Acts, killed_after_each

FLOW = Flow("A", "B")
NAMES = ("accepted", "anew", "moved", "recut")
ACCEPTED, ANEW, MOVED, RECUT = (TopicPartition(name, 0) for name in NAMES)
PLAN = TopicPlan(
    {name: f"A.{name}" for name in NAMES},
    *((), {}, (ACCEPTED, ANEW, MOVED, RECUT)),
    {name: f"id of {name}" for name in NAMES},
)
OLD = Position(9, 9)
RESUMED = {
    ACCEPTED: Position(50, 0),
    ANEW: Position(0, 0),
    MOVED: Position(4, 9),
    RECUT: Position(7, 7),
}
"""Where they go on: where an operator says so, twice; a new topic from its start; before a cut."""


@dataclass
class World:
    """What outlives a process: rows of the offset map by generation, events, requests."""

    rows: dict[TopicPartition, list[tuple[int, Position]]] = field(
        default_factory=lambda: {tp: [(1, OLD)] for tp in RESUMED}
    )
    events: set[str] = field(default_factory=set)
    accept: list[AcceptRequest] = field(
        default_factory=lambda: [
            AcceptRequest("accepted", "id of accepted", (0,), 40, Request(path="1")),
            AcceptRequest("accepted", "id of accepted", (0,), 50, Request(path="2")),
        ]
    )
    move: list[MoveRequest] = field(
        default_factory=lambda: [
            MoveRequest(MOVED, Moving(to, OLD, "id of moved"), Request(path=str(to)))
            for to in (3, 4)
        ]
    )

    copied_again: int = 0
    """How often what was cut off the target of the last partition was copied again."""

    def position(self, tp: TopicPartition) -> Position:
        """Where the partition resumes, as the next process reads the map."""
        return self.rows[tp][-1][1]


class Requests:
    """The requests of one kind."""

    def __init__(self, kept: list[Any], acts: Acts) -> None:
        self._kept, self._acts = kept, acts

    def find(self) -> list[Any]:
        return list(self._kept)

    def events(self, _requests: object) -> list[NewEvent]:
        return []

    def remove(self, requests: Collection[Any]) -> None:
        for each in requests:
            self._kept.remove(each)
            self._acts(f"{type(each).__name__} removed")


class Process:
    """The tables, the map and the board of a process, as far as the search's end needs them."""

    rejected: Mapping[TopicPartition, object] = {}

    def __init__(self, world: World, acts: Acts, patch: pytest.MonkeyPatch) -> None:
        self.world, self.acts = world, acts
        self.placed = {ACCEPTED}
        self.tries = 1  # until what was cut off is found
        self.leaders = SimpleNamespace(begin=lambda *_: None)
        self.context: Any = SimpleNamespace(
            config=SimpleNamespace(flow=FLOW), tables=self, metrics=self, log=self,
            accept_requests=Requests(world.accept, acts), move_requests=Requests(world.move, acts),
        )  # fmt: skip
        patch.setattr(resume, "find_positions", self.found)
        patch.setattr(resume, "changed_transforms", lambda *_: set())

    def found(
        self, _context: object, _plan: object, _map: object, asked: AskedPositions, **_: object
    ) -> Found:
        """What is not in the map yet is found anew, if there is a request for it."""
        rows = self.world.rows
        wanted = {tp for tp, at in RESUMED.items() if self.world.position(tp) != at}
        wanted |= {ANEW} & {tp for tp, of in rows.items() if len(of) > 1}  # of the topic before
        if ACCEPTED in wanted:
            assert asked.accepted[ACCEPTED].start == 50, "of two requests the newer one counts"
        if MOVED in wanted:
            assert asked.moves[MOVED].to == 4
        new = {tp: [anchor(at)] for tp, at in RESUMED.items() if tp in wanted}
        return Found(
            {tp: Resume(at) for tp, at in RESUMED.items()},
            {tp: at for tp, at in RESUMED.items() if tp not in wanted},
            {tp: runs for tp, runs in new.items() if tp != RECUT},
            {tp: runs for tp, runs in new.items() if tp == RECUT},
            {ANEW: "deleted"} if ANEW in wanted else {},
            *(frozenset(), frozenset({ACCEPTED})),  # which others have written
            tuple(NewEvent("jumped", f"found {tp.topic}", "keep") for tp in sorted(wanted)),
            missing={} if self.world.copied_again >= self.tries else {RECUT: (5, 7)},
        )

    def repeat(self, positions: Mapping[TopicPartition, int], _generation: int) -> None:
        """What is copied again is catching up, and late for nobody."""
        assert positions.keys() <= RESUMED.keys()

    def copy_lost(self, missing: object, positions: object) -> None:
        assert missing == {RECUT: (5, 7)}
        assert positions == {RECUT: RESUMED[RECUT]}
        self.world.copied_again += 1
        self.acts("copied again")

    def record_events(self, _flow: Flow, events: Sequence[NewEvent]) -> None:
        for event in events:
            self.world.events.add(event.text)
            assert event.kind != "move-unused" or "to 3 is not done" in event.text
            self.acts(event.text)

    def write(self, finished: FinishedRuns) -> None:
        if any(finished.runs.values()):
            for tp, runs in finished.runs.items():
                self.world.rows[tp].append((finished.generation, runs[-1].end))
            self.acts("map written")

    def replace(self, finished: FinishedRuns) -> None:
        for tp, runs in finished.runs.items():
            self.world.rows[tp] = [(finished.generation, runs[-1].end)]
            self.acts("map replaced")

    def delete(self, partitions: Collection[TopicPartition], *, before_generation: int) -> None:
        for tp in partitions:
            self.world.rows[tp] = [
                row for row in self.world.rows[tp] if row[0] >= before_generation
            ]
            self.acts("map deleted")

    def forget(self, _partitions: object) -> None: ...

    def record(self, *_: object) -> None: ...

    def settle(self, *_: object) -> None: ...

    def info(self, *_: object, **__: object) -> None: ...

    def warning(self, *_: object, **__: object) -> None: ...

    def settles(self, generation: int) -> Found:
        written: Any = self
        return settle_positions(self.context, PLAN, written, generation, copy_lost=self.copy_lost)


def test_each_partition_resumes_where_it_should_whenever_its_process_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()

    def settle(acts: Acts) -> None:
        world.__init__()  # type: ignore[misc]
        Process(world, acts, monkeypatch).settles(2)

    def check(done: list[str]) -> None:
        for tp, at in RESUMED.items():
            assert world.rows[tp], f"{tp} has no position, and starts anew: {done}"
            assert world.position(tp) in (OLD, at), done
            if world.position(tp) == at:
                assert f"found {tp.topic}" in world.events, f"nobody is told: {done}"
        assert world.copied_again or world.rows == World().rows, f"the map is written first: {done}"
        for tp, kept in ((ACCEPTED, world.accept), (MOVED, world.move)):
            assert kept or world.position(tp) == RESUMED[tp], f"what was asked is lost: {done}"
        process = Process(world, Acts(), monkeypatch)
        process.settles(3)
        assert ACCEPTED not in process.placed
        assert {tp: world.position(tp) for tp in RESUMED} == RESUMED, done
        assert len(world.rows[ANEW]) == 1, f"rows of the topic before are left: {done}"
        assert (world.accept, world.move) == ([], []), done
        assert world.copied_again == 1, done

    assert killed_after_each(settle, check) >= 10


def test_what_is_cut_off_again_and_again_is_an_error_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    process = Process(world, Acts(), monkeypatch)
    process.tries = 9

    with pytest.raises(QueryError, match="is not found there: recut-0"):
        process.settles(2)
    assert world.copied_again == MOST_TRIES
    assert process.acts.done == ["copied again"] * MOST_TRIES


@pytest.mark.parametrize(
    ("refused", "are_used", "kept"),
    [
        pytest.param((), True, [], id="used"),
        pytest.param((), False, [40, 50], id="the positions are not written yet"),
        pytest.param((ACCEPTED,), True, [], id="of no use"),
        pytest.param((TopicPartition("accepted", 1),), True, [40, 50], id="others refused"),
    ],
)
def test_when_a_request_to_accept_is_removed(
    monkeypatch: pytest.MonkeyPatch,
    refused: tuple[TopicPartition, ...],
    kept: list[int],
    *,
    are_used: bool,
) -> None:
    world = World()
    world.accept.append(AcceptRequest("elsewhere", "id", (0,), 1))
    process = Process(world, Acts(), monkeypatch)

    Acceptances(process.context).settle(PLAN, refused, are_positions_used=are_used)

    assert [each.start for each in world.accept] == [*kept, 1], "1 is of a topic without a search"
