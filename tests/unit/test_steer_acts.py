"""An owner that puts operators' changes in force is killed after each of its acts, or fails."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from replication.config.changes import Change, fold
from replication.errors import StateError
from replication.flows.replicate import overrides
from replication.flows.replicate.overrides import OverrideFollower
from replication.model import Flow, NewEvent, TopicPartition
from replication.state.change_files import Applied
from replication.topics.topic_plan import TopicPlan
from tests.support.acts import Acts, killed_after_each
from tests.support.remote_topics import flow_config

FLOW = Flow("A", "B")
TP = TopicPartition("orders", 0)
PLAN = TopicPlan({}, (), {}, (), {}, paused=(TP,))
CHANGES = [
    Change(FLOW, "pause", (topic,), number=number, id=str(number) * 32, by="ann@desk")
    for number, topic in ((1, "orders"), (2, "clicks"))
]
NAMES = [each.name for each in CHANGES]


@dataclass
class World:
    """What outlives a process: the table of changes, events, what is said to be in force."""

    rows: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    applied: Applied | None = None
    collected: int = 0


class Process:
    """An owner's tables and changes, which note what it does."""

    def __init__(self, world: World, acts: Acts, patch: pytest.MonkeyPatch) -> None:
        self.world, self.acts = world, acts
        self.is_failing = False
        self.lost = False
        self.unread: Mapping[str, object] = {}
        config = flow_config("orders, clicks")
        context: Any = SimpleNamespace(
            config=config, configured=config, steering=fold(CHANGES), tables=self, changes=self,
            metrics=SimpleNamespace(pause=lambda *_: None), log=self, source=None,
        )  # fmt: skip
        patch.setattr(overrides, "apply_limits", lambda _: None)
        patch.setattr(overrides, "find_at_risk", lambda *_: {})
        patch.setattr(overrides, "reader_of", lambda _: self)
        self.context = context
        self.steer = OverrideFollower(context, SimpleNamespace(next_offsets={}))  # type: ignore[arg-type]

    def restore(self) -> int:
        return 0  # none has disappeared

    def publish(self, applied: Applied) -> None:
        self.world.applied = applied
        self.acts("published")

    def rows(self, _table: str, _flow: Flow) -> list[dict[str, object]]:
        return [{"number": int(name[:10]), "id": name[11:]} for name in self.world.rows]

    def append(self, _table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.is_failing:
            raise StateError("no space is left")
        if rows:
            self.world.rows += [f"{row['number']:010d}-{row['id']}" for row in rows]
            self.acts("rows")

    def record_events(self, _flow: Flow, events: Sequence[NewEvent]) -> None:
        if events:
            self.world.events += [event.text.partition(",")[0] for event in events]
            self.acts("events")

    def collect(self) -> None:
        self.world.collected += 1
        self.acts("collected")

    def warning(self, *_: object, **__: object) -> None: ...

    def follows(self) -> None:
        self.steer.look()
        self.steer.follow(PLAN, 7)


def test_each_change_is_told_and_has_one_row_whenever_its_owner_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()

    def follow(acts: Acts) -> None:
        world.__init__()  # type: ignore[misc]
        Process(world, acts, monkeypatch).follows()

    def check(done: list[str]) -> None:
        if world.rows or world.events:
            assert world.applied, f"commands that wait come first: {done}"
        assert not world.collected or world.rows == NAMES, done
        Process(world, Acts(), monkeypatch).follows()
        assert world.applied is not None
        assert world.applied.names == set(NAMES), done
        assert world.rows == NAMES, done
        assert set(world.events) == {"change 1", "change 2"}, f"not told: {done}"
        assert world.collected, done

    assert killed_after_each(follow, check) == 4


def test_what_cannot_be_written_is_written_later_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, clock = World(), SimpleNamespace(now=100.0)
    monkeypatch.setattr(overrides, "time", SimpleNamespace(monotonic=lambda: clock.now))
    process = Process(world, Acts(), monkeypatch)
    process.is_failing = True
    process.follows()
    process.is_failing = False
    process.steer.record(7)
    assert world.rows == [], "not before its time"
    clock.now += 31
    process.steer.record(7)
    clock.now += 31
    process.steer.record(7)

    assert world.rows == NAMES
    assert world.events == ["change 1", "change 2"]
    assert process.acts.done.count("published") == 1


def test_a_change_that_comes_later_is_told_at_once_and_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    process = Process(world, Acts(), monkeypatch)
    process.is_failing = True
    process.follows()
    process.is_failing = False
    more = replace(CHANGES[0], number=3, id="3" * 32, what="resume")
    process.context.steering = fold([*CHANGES, more])
    assert process.steer.is_due
    process.follows()
    process.steer.record(7)

    assert world.rows == [*NAMES, more.name], "at once, although a write has just failed"
    assert world.collected == 1, "and nothing is listed at each look"
    assert world.events == ["change 1", "change 2", "change 3"]
    assert not process.steer.is_due
    process.context.steering = fold([*CHANGES, more, replace(more, number=4, id="4" * 32)])
    process.follows()
    assert len(world.rows) == 4
