"""A process that keeps a dead letter, or copies one again, is killed after each of its acts."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from replication.flows.replicate import dead_letters
from replication.flows.replicate.dead_letters import DeadLetterRetries, DeadLetterWriter
from replication.kafka.api import KafkaRecord
from replication.kafka.single_record import SingleRecord
from replication.model import Flow, LetterKind, NewEvent, Position, TopicPartition
from replication.offsets.dead_letter import DeadLetter, DeadLetterId, identity_of
from replication.offsets.runs import FinishedRuns
from replication.state.letter_rows import TABLE, KeptLetter, LetterState
from replication.state.requests import DeadLetterRequest, Request
from replication.state.table_reader import Anchor
from replication.topics.topic_plan import TopicPlan
from tests.support.acts import Acts, killed_after_each
from tests.support.remote_topics import flow_config

FLOW = Flow("A", "B")
TP, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
PLAN = TopicPlan({"t": "A.t"}, (), {}, (TP,), {"t": "id"}, {"A.t": "remote id"})
LETTERS_TOPIC = TopicPartition("letters", 0)
START = Position(0, 0)


def letter(offset: int) -> DeadLetter:
    one = DeadLetterId("t", "id", 0, offset)
    return DeadLetter(FLOW, one, "KAFKA_PRODUCE", "too large", 1000, b"k", b"v%d" % offset)


@dataclass
class World:
    """What outlives a process: the target, tables, requests."""

    logs: dict[TopicPartition, list[SingleRecord]] = field(default_factory=dict)
    rows: list[KeptLetter] = field(default_factory=list)
    map_end: Position = START
    requests: list[DeadLetterRequest] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def copies(self, at: TopicPartition = COPY) -> list[DeadLetterId]:
        """What the partition *at* has of letters, in its order."""
        found = (identity_of(FLOW, record.headers) for record in self.logs.get(at, []))
        return [one for one in found if one is not None]


class Process(AbstractContextManager["Process"]):
    """A process that owns the flow: real letters, and stand-ins that note its acts."""

    def __init__(
        self, world: World, acts: Acts, patch: pytest.MonkeyPatch, kind: LetterKind
    ) -> None:
        self.world, self.acts = world, acts
        self.anchors = {TP: Anchor(world.map_end, "id")}
        self.placed: set[TopicPartition] = set()
        config = flow_config("t")
        letters = replace(config.letters, kind=kind, letters_topic="letters")
        context: Any = SimpleNamespace(
            config=replace(config, letters=letters), target=self, tables=self, jvm=None, spark=None,
            started_spark=None, letter_requests=self, metrics=self, log=self
        )  # fmt: skip
        table = SimpleNamespace(place=self.place, add=self.add_row, letters=self.letters)
        patch.setattr(dead_letters, "DeadLetterTable", lambda *_: table)
        patch.setattr(dead_letters, "reader_of", lambda _: None)
        patch.setattr(dead_letters, "write_record", self.write_record)
        for module in (dead_letters, dead_letters):
            patch.setattr(module, "Reader", lambda *_: self)
        ends = SimpleNamespace(ends={COPY: len(world.logs.get(COPY, []))})
        patch.setattr(dead_letters, "settled_log_ends", lambda *_, **__: ends)
        self.box = DeadLetterWriter(context)
        self.copies: Any = DeadLetterRetries(context, self, self.box)  # type: ignore[arg-type]

    # The table of letters

    def place(self, one: DeadLetterId) -> str | None:
        return next((row.place for row in self.world.rows if row.letter.id == one), None)

    def add_row(self, one: DeadLetter, place: str, state: LetterState = "waiting") -> None:
        self.world.rows.append(KeptLetter(one, place, state, ""))
        self.acts(f"row {state}")

    def letters(self) -> dict[DeadLetterId, KeptLetter]:
        return {row.letter.id: row for row in self.world.rows}

    # Other tables, the offset map, and the board, which does not outlive the process

    def warning(self, *_: object, **__: object) -> None: ...

    def check(self) -> None: ...

    def record_events(self, _flow: Flow, events: list[NewEvent]) -> None:
        for event in events:
            self.world.events.append(event.kind)
            self.acts(f"event {event.kind}")

    def write(self, finished: FinishedRuns) -> None:
        self.world.map_end = finished.runs[TP][-1].end
        self.acts("map")

    def record(self, *_: object) -> None: ...

    def add_single(self, *_: object) -> None: ...

    # The requests

    def find(self) -> list[DeadLetterRequest]:
        return list(self.world.requests)

    def events(self, _requests: object) -> list[NewEvent]:
        return []

    def remove(self, requests: list[DeadLetterRequest]) -> None:
        for request in requests:
            self.world.requests.remove(request)
            self.acts("request removed")

    # The target, and its reader

    def describe(self, topics: list[str]) -> Mapping[str, Any]:
        known = {at.topic for at in self.world.logs}
        return {topic: SimpleNamespace(partitions=1) for topic in topics if topic in known}

    def create_topics(self, new: list[Any]) -> None:
        for topic in new:
            self.world.logs[TopicPartition(topic.name, 0)] = []
            self.acts("topic created")

    def earliest(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(parts, 0)

    def log_ends(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: len(self.world.logs[at]) for at in parts}

    def write_record(self, _jvm: object, _alias: str, _own: object, record: SingleRecord) -> int:
        log = self.world.logs[record.to]
        log.append(record)
        self.acts(f"record in {record.to.topic}")
        return len(log) - 1

    def __exit__(self, *_: object) -> None: ...

    def visit(
        self,
        spans: Mapping[TopicPartition, tuple[int, int]],
        visit: Callable[[TopicPartition, KafkaRecord], None],
    ) -> None:
        for at, (start, end) in spans.items():
            for offset in range(start, end):
                one = self.world.logs[at][offset]
                record = KafkaRecord(offset, one.timestamp_ms, one.key, one.value, one.headers)
                visit(at, record)

    def owns(self, ahead: int = 0) -> None:
        """What the loop does between two generations, with the search for positions modelled.

        *ahead* records are behind the map's end, and are counted on the source.
        """
        self.copies.finish(PLAN, 2)
        end = self.world.map_end
        behind = self.world.logs[COPY][end.downstream :]
        assert all(identity_of(FLOW, each.headers) is None for each in behind), (
            "a copy is taken for the source's next record, which is never copied then"
        )
        at = Position(end.upstream + len(behind), end.downstream + len(behind))
        assert len(behind) <= ahead
        self.copies.copy(PLAN, {TP: at}, 2)
        assert self.anchors[TP].position == self.world.map_end, "by which the next search goes"


@pytest.mark.parametrize("kind", ["table", "topic"])
def test_a_letter_is_kept_once_whenever_its_process_is_killed(
    monkeypatch: pytest.MonkeyPatch, kind: LetterKind
) -> None:
    world = World()

    def keep(acts: Acts) -> None:
        world.__init__()  # type: ignore[misc]
        Process(world, acts, monkeypatch, kind).box.keep(letter(5))

    def check(done: list[str]) -> None:
        """The map has not passed the record: so the next process keeps its letter, too."""
        if any(row.letter.id == letter(5).id for row in world.rows):
            assert kind == "table" or world.copies(LETTERS_TOPIC) == [letter(5).id], done
        if world.events:
            assert len(world.rows) == 1, done
        Process(world, Acts(), monkeypatch, kind).box.keep(letter(5))
        assert [row.letter.id for row in world.rows] == [letter(5).id], done
        in_topic = [letter(5).id] if kind == "topic" else []
        assert world.copies(LETTERS_TOPIC) == in_topic, done
        assert set(world.events) == {"dead-letter"}, done

    assert killed_after_each(keep, check) == {"table": 2, "topic": 4}[kind]


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_letter_is_copied_once_whenever_its_process_is_killed(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    world = World()
    asked = letter(4), letter(5)

    def begin() -> None:
        world.__init__()  # type: ignore[misc]
        plain = SingleRecord(COPY, b"k", b"v", ())
        world.logs[COPY] = [plain] * 4
        world.rows = [KeptLetter(one, TABLE, "waiting", "") for one in asked]
        world.map_end = Position(6, 4 - ahead)
        ids = tuple(one.id for one in asked)
        world.requests = [
            DeadLetterRequest(ids, Request(path="1")),
            DeadLetterRequest(ids[:1], Request()),
        ]

    def copy(acts: Acts) -> None:
        begin()
        Process(world, acts, monkeypatch, "table").owns(ahead)

    def check(done: list[str]) -> None:
        copied = {row.letter.id for row in world.rows if row.state == "copied"}
        assert copied <= set(world.copies()), f"a row says what is not there: {done}"
        Process(world, Acts(), monkeypatch, "table").owns(ahead)
        assert world.copies() == [one.id for one in asked], done
        states = [(row.letter.id, row.state) for row in world.rows if row.state == "copied"]
        assert states == [(one.id, "copied") for one in asked], done
        assert world.map_end == Position(6 + ahead, len(world.logs[COPY])), done
        assert world.requests == [], done
        assert world.events.count("dead-letter-copied") >= len(asked), done

    assert killed_after_each(copy, check) >= 10


def test_a_record_that_only_names_a_letter_is_not_taken_for_its_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, world = letter(4), World(logs={COPY: []}, map_end=Position(6, 0))
    world.rows = [KeptLetter(one, TABLE, "waiting", "")]
    world.requests = [DeadLetterRequest((one.id,), Request(path="1"))]
    process = Process(world, Acts(), monkeypatch, "table")
    process.owns()
    (own,) = world.logs[COPY]
    forged = [
        replace(own, value=b"x"), replace(own, key=None), replace(own, timestamp_ms=1),
        replace(own, headers=(*own.headers, ("more", b"x"))),
    ]  # fmt: skip
    world.logs[COPY] = [*forged, own]
    waiting = {one.id: KeptLetter(one, TABLE, "waiting", "")}

    found = process.copies._copies_between(COPY, 0, len(forged) + 1, waiting)  # noqa: SLF001 - the rule

    assert found == {len(forged): one.id}
