"""A flow that is to stop once it has caught up ends at the ends that were there, never before."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replication.app import background
from replication.app.flow_thread import FlowThread, wait_for_all
from replication.config.state_access import StateAccess
from replication.control import stop
from replication.control.positions import FlowPosition
from replication.errors import ClusterError, LeaseError, NoAnswerError
from replication.flows.context import CatchUp
from replication.flows.flow_metrics import FlowMetrics
from replication.flows.replicate.catch_up import CatchUpGoal
from replication.model import Flow, Position, TopicPartition
from replication.state.files import LocalFiles
from replication.state.locks import hold_jobs
from replication.state.requests import (
    NOT_CAUGHT_UP,
    Idle,
    StopRequests,
    UnansweredError,
    answer_prefix,
    new_path,
    request_stop,
)
from replication.topics.topic_plan import TopicPlan
from tests.support.local import Until
from tests.support.requests import channel
from tests.support.said import SaidLines

FLOW = Flow("A", "B")
ORDERS, CLICKS, LATER = (TopicPartition(name, 0) for name in ("orders", "clicks", "later"))


def plan(*partitions: TopicPartition, paused: tuple[TopicPartition, ...] = ()) -> TopicPlan:
    names = {tp.topic: f"A.{tp.topic}" for tp in partitions}
    return TopicPlan(names, (), {}, partitions, {}, paused=paused)


class Flowing:
    """A flow whose source has ends, and whose target has acknowledged positions."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self.ends, self.aside = dict(ends), set[str]()
        self.metrics, self.catch_up = FlowMetrics(), CatchUp()
        source = SimpleNamespace(
            ends_at_once=lambda tps, *_: {tp: self.ends[tp] for tp in tps if tp in self.ends}
        )
        context: Any = SimpleNamespace(
            catch_up=self.catch_up, metrics=self.metrics, source=source,
            config=SimpleNamespace(isolation="read_committed"),
        )  # fmt: skip
        self.goal = CatchUpGoal(context, lambda: self.aside)

    def copy(self, positions: Mapping[TopicPartition, int]) -> None:
        at = {tp: Position(offset, offset) for tp, offset in positions.items()}
        self.metrics.begin(1, "microbatch", plan(*positions), at)


def test_a_source_that_grows_faster_than_it_is_copied_holds_up_nothing() -> None:
    flow = Flowing({ORDERS: 100, CLICKS: 0})
    flow.goal.note(plan(ORDERS, CLICKS))
    flow.copy({ORDERS: 100, CLICKS: 0})
    before = flow.goal.is_due, flow.goal.is_reached
    flow.catch_up.asked = frozenset({"one"})
    asked = flow.goal.is_due, flow.goal.is_reached
    flow.goal.note(plan(ORDERS, CLICKS))
    flow.ends[ORDERS] = 1000
    flow.goal.note(plan(ORDERS, CLICKS))  # as at each refresh

    assert (before, asked) == ((False, False), (True, False))
    assert flow.goal.is_reached
    assert not flow.goal.is_due


def test_each_partition_counts_but_one_that_is_selected_no_longer() -> None:
    flow = Flowing({ORDERS: 100, CLICKS: 50})
    flow.catch_up.asked = frozenset({"one"})
    flow.goal.note(plan(ORDERS, CLICKS))
    flow.copy({ORDERS: 100, CLICKS: 49})
    behind = flow.goal.is_reached
    flow.goal.note(plan(ORDERS))
    gone = flow.goal.is_reached

    assert (behind, gone) == (False, True)


@pytest.mark.parametrize("what", ["paused", "set aside"])
def test_what_is_not_copied_is_never_taken_for_copied(what: str) -> None:
    flow = Flowing({ORDERS: 100, CLICKS: 50})
    flow.catch_up.asked = frozenset({"one"})
    flow.copy({ORDERS: 100})
    if what == "paused":
        flow.goal.note(plan(ORDERS, paused=(CLICKS,)))
    else:
        flow.goal.note(plan(ORDERS))
        flow.aside = {"clicks"}
    held_up = flow.goal.is_reached
    flow.aside = set()
    flow.goal.note(plan(ORDERS, CLICKS))  # as it resumes, or rejoins
    still_behind = flow.goal.is_reached
    flow.copy({ORDERS: 100, CLICKS: 50})

    assert (held_up, still_behind, flow.goal.is_reached) == (False, False, True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (frozenset({"one"}), frozenset({"two"})),  # which is taken back
        (frozenset({"one"}), frozenset({"one", "two"})),
    ],
)
def test_who_asks_later_means_the_ends_of_then(
    until: Until, first: frozenset[str], second: frozenset[str]
) -> None:
    flow = Flowing({ORDERS: 100})
    flow.catch_up.asked = first
    flow.goal.note(plan(ORDERS))
    flow.copy({ORDERS: 100})
    reached = flow.goal.is_reached, flow.goal.fulfilled
    flow.ends[ORDERS] = 200
    flow.catch_up.asked = second
    still = flow.goal.is_reached, flow.goal.fulfilled
    until(lambda: flow.goal.is_due, 30)
    flow.goal.note(plan(ORDERS))
    behind = flow.goal.is_reached, flow.goal.is_due
    flow.copy({ORDERS: 200})

    assert reached == (True, first)
    assert still == (False, first), "who asks while it ends is not told that it had caught up"
    assert behind == (False, False)
    assert (flow.goal.is_reached, flow.goal.fulfilled) == (True, second)


def test_an_end_that_nobody_knows_is_asked_for_again_and_not_taken_for_reached(
    until: Until,
) -> None:
    flow = Flowing({ORDERS: 100})
    flow.catch_up.asked = frozenset({"one"})
    flow.copy({ORDERS: 100, CLICKS: 50})
    flow.goal.note(plan(ORDERS, CLICKS))
    unknown = flow.goal.is_reached, flow.goal.is_due
    flow.ends[CLICKS] = 50
    until(lambda: flow.goal.is_due, 30)
    flow.goal.note(plan(ORDERS, CLICKS))

    assert unknown == (False, False), "not at each turn of the loop"
    assert (flow.goal.is_reached, flow.goal.is_due) == (True, False)


# The request, on its way from the command to the flow's thread and back.


@contextmanager
def asking(
    state_dir: str, seconds: float = 30, idle: Idle = lambda _: ()
) -> Iterator[list[dict[Flow, int] | Exception]]:
    """Asks in a thread of its own, for the block; then the list has what the command got."""
    got: list[dict[Flow, int] | Exception] = []

    def ask() -> None:
        access = StateAccess(state_dir)
        try:
            got.append(request_stop(access, [FLOW], seconds, "mirror", "move", idle, "catchup"))
        except UnansweredError as error:
            got.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    yield got
    thread.join(30)


@pytest.mark.parametrize(
    ("ending", "code"),
    [("caught up", 0), ("stopped by another", NOT_CAUGHT_UP), ("failed", 3), ("killed", 8)],
)
def test_only_a_flow_that_has_caught_up_says_so(
    tmp_path: Path, until: Until, said: SaidLines, ending: str, code: int
) -> None:
    state_dir, files = tmp_path.as_uri(), LocalFiles()
    flow, told = CatchUp(), list[str]()

    def work(ends: threading.Event) -> None:
        until(lambda: flow.asked, 30)
        if ending == "failed":
            raise ClusterError("the source does not answer")
        if ending == "stopped by another":
            files.create(new_path(state_dir, "stop", FLOW))
            until(ends.is_set, 30)
        else:
            flow.done = flow.asked

    with hold_jobs(state_dir, [FLOW], "mirror") as locks:
        requests = StopRequests(channel(state_dir), [FLOW], "mirror", locks.holds, locks.address)
        requests.watch()
        thread = FlowThread(
            FLOW, work, record=lambda events: told.extend(e.text for e in events), catch_up=flow
        )
        with asking(state_dir) as got:
            thread.start()
            if ending == "killed":
                until(lambda: requests.find() or requests.catching_up(FLOW), 30)
                flow.asked = requests.catching_up(FLOW)
                locks.release(FLOW)
            else:
                wait_for_all([thread], requests, locks)

    assert got == [{FLOW: code}]
    assert list((tmp_path / "_control").glob("catchup-*")) == []
    if ending != "killed":
        assert told[0].startswith("stop when caught up, requested 20")
        assert told[0].endswith(": move")
        line, *_ = said.of("flow_stopping")
        assert line.text.startswith("stop when caught up requested by ")


def test_a_request_that_is_taken_back_stops_nothing(tmp_path: Path, until: Until) -> None:
    state_dir, flow = tmp_path.as_uri(), CatchUp()
    seen: list[bool] = []

    def work(ends: threading.Event) -> None:
        until(lambda: flow.asked, 30)
        until(lambda: not flow.asked, 30)
        seen.append(ends.is_set())

    with hold_jobs(state_dir, [FLOW], "mirror") as locks:
        requests = StopRequests(channel(state_dir), [FLOW], "mirror", locks.holds, locks.address)
        thread = FlowThread(FLOW, work, catch_up=flow)
        with asking(state_dir, seconds=3) as got:
            thread.start()
            wait_for_all([thread], requests, locks)

    (error,) = got
    assert isinstance(error, UnansweredError)
    assert seen == [False]
    assert not requests.find()


def test_who_asks_while_it_ends_for_another_is_not_told_that_it_had_caught_up(
    tmp_path: Path,
) -> None:
    state_dir, files = tmp_path.as_uri(), LocalFiles()
    requests = StopRequests(channel(state_dir), [FLOW], "mirror", lambda _: True)
    first, late = (new_path(state_dir, "catchup", FLOW) for _ in range(2))
    requests.watch()
    files.create(first)
    requests.find()
    done = requests.catching_up(FLOW)
    files.create(late)
    requests.find()
    requests.answer(FLOW, 0, done)

    assert done == {first}
    assert files.find(answer_prefix(first)) == []
    assert files.find(answer_prefix(late)) == [f"{answer_prefix(late)}{NOT_CAUGHT_UP}"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_flow_that_has_caught_up_does_not_wait_for_ever_for_a_lease_of_another_process(
    *, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    monkeypatch.setattr(background, "LAST_ROUND_SECONDS", 0.05)
    monkeypatch.setattr(background, "STOP_SECONDS", 0.01)
    done, stop = CatchUp(done=frozenset({"one"})), threading.Event()
    context: Any = SimpleNamespace(held={}, catch_up=done, config=SimpleNamespace(flow=FLOW))
    checkpoints: Any = None

    if is_stopped:
        stop.set()
        background._last_round(context, checkpoints, stop)  # noqa: SLF001
        assert not done.done, "no last round"
    else:
        with pytest.raises(LeaseError, match="does not have the lease of checkpoints"):
            background._last_round(context, checkpoints, stop)  # noqa: SLF001


# What is missing, in the words of the command.


def test_what_is_missing_after_the_timeout_is_said_by_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to the ends of the request: what the source gets later is not missing."""

    def at(
        topic: str, number: int, offset: int | None, end: int | None, state: str = "lagging"
    ) -> FlowPosition:
        position = None if offset is None else Position(offset, offset)
        reason = "a record is too large" if state == "set-aside" else ""
        return FlowPosition(TopicPartition(topic, number), position, end, 1.0, state, reason)

    asked = [
        *(at("orders", n, 0, 100) for n in range(3)),
        *(at("clicks", 0, None, 50), at("gone", 0, 0, 9), at("empty", 0, None, 0)),
        *(at("unled", 0, 5, None), at("denied", 0, 9, 9)),
    ]
    later = [
        *(at("orders", 0, 100, 900), at("orders", 1, 90, 900), at("orders", 2, 70, 900)),
        at("clicks", 0, None, 70, "set-aside"),
        *(at("gone", 0, 0, 9, "gone"), at("empty", 0, None, 7, "new"), at("born", 0, None, 0)),
        *(at("unled", 0, 5, None, "leaderless"), at("denied", 0, 9, 9, "set-aside")),
    ]
    looks = iter([asked, asked, later])
    monkeypatch.setattr(
        stop, "flow_positions", lambda *_: SimpleNamespace(positions=next(looks), problems=())
    )

    def not_in_time(*_: object) -> None:
        path = new_path("file:///state", "catchup", FLOW)
        raise UnansweredError("A->B still runs after 5 s, and B->A has ended", [path])

    monkeypatch.setattr(stop, "stop_flows", not_in_time)
    mirror: Any = SimpleNamespace(state_dir="file:///state")
    configs: Any = [SimpleNamespace(flow=FLOW), SimpleNamespace(flow=Flow("B", "A"))]

    with pytest.raises(NoAnswerError) as error:
        stop.stop_when_caught_up(mirror, configs, "mirror", 5)

    assert str(error.value).splitlines() == [
        "not caught up after 5 s, and goes on: A->B; what is missing:",
        "  - A->B: orders: 40 offsets in 2 partitions",
        "  - A->B: clicks: 50 offsets in 1 partition (set-aside: a record is too large)",
        "  - A->B: unled: at least 0 offsets in 1 partition (leaderless)",
        "  - A->B: denied: 0 offsets in 1 partition (set-aside: a record is too large)",
        "  - nothing of B->A, which no process runs any more",
    ]
