"""What is set aside is tried as soon as an operator asks, and who asked is answered then."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replication.config.state_access import StateAccess
from replication.control.flow_answers import FlowAnswer, LastStatus, SeenState
from replication.control.lease_groups import LeaseGroup
from replication.control.retry import aside_of
from replication.errors import ClusterError, StateError
from replication.figures.observation import Observation, TopicFigures
from replication.figures.status_store import StatusEntry
from replication.flows.replicate import choose
from replication.flows.replicate.choose import TopicChoice
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.moved import Moving
from replication.state.requests import (
    AcceptRequest,
    MoveRequest,
    OwnerRequest,
    OwnerRequests,
    RetryRequest,
    ask_owner,
    request_retry,
)
from tests.support.remote_topics import flow_config
from tests.support.requests import channel

FLOW = Flow("A", "B")
UNLED = TopicPartition("payments", 1)
WHY = ClusterError("the target takes no records")
ASIDE = [f"t-{number:02}" for number in range(25)]


class Owner:
    """The choice of a flow that has set aside two topics and a partition, an hour each."""

    def __init__(self, state_dir: str, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(choose, "Identity", lambda _context: None)
        self.access = StateAccess(state_dir)
        self.channel = channel(state_dir)
        self.events: list[NewEvent] = []
        stored: Any = SimpleNamespace(topics=SimpleNamespace(last=frozenset()))
        quiet = SimpleNamespace(set_aside=lambda _: None, take_back=lambda _: None)
        context: Any = SimpleNamespace(
            config=flow_config("orders, clicks, payments"),
            tables=SimpleNamespace(record_events=lambda _, events: self.events.extend(events)),
            log=SimpleNamespace(warning=lambda *_, **__: None),
            metrics=quiet,
            requests=self.channel,
            accept_requests=OwnerRequests(self.channel, FLOW, AcceptRequest),
            move_requests=OwnerRequests(self.channel, FLOW, MoveRequest),
            retry_requests=OwnerRequests(self.channel, FLOW, RetryRequest),
            outages=SimpleNamespace(leaderless=frozenset()),
        )
        self.choice = TopicChoice(context, stored, lambda _: {})
        self.topics, self.leaderless = self.choice._topics, self.choice._leaderless  # noqa: SLF001
        self.fail("orders", "clicks")
        self.leaderless.add({UNLED: WHY})

    def fail(self, *topics: str) -> None:
        self.topics.add(dict.fromkeys(topics, WHY))

    def look(self) -> bool:
        """Looks as a process does that lists its requests; returns whether anything is due."""
        self.channel.paths("stop")
        return self.choice.has_retry()

    def waiting(self) -> set[object]:
        return {*self.topics.waiting(), *self.leaderless.waiting()}

    def asked(self) -> list[tuple[str, ...]]:
        return [each.topics for each in OwnerRequests(self.channel, FLOW, RetryRequest).find()]

    def ask(self, *topics: str) -> None:
        ask_owner(self.access, FLOW, [RetryRequest(topics)], "mended")


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    return Owner(tmp_path.as_uri(), monkeypatch)


@pytest.mark.parametrize(
    ("topics", "left"),
    [
        (["orders"], {"clicks", UNLED}),
        (["payments"], {"orders", "clicks"}),
        (["orders", "no-such"], {"clicks", UNLED}),
        ([], set()),
    ],
)
def test_what_is_asked_for_is_due_at_once_and_nothing_else(
    owner: Owner, topics: list[str], left: set[object]
) -> None:
    assert not owner.look()
    owner.ask(*topics)

    assert owner.look()
    assert owner.waiting() == left
    assert owner.asked() == [tuple(topics)], "it is answered when it was tried"
    told = [(each.kind, each.text.partition(", requested")[0]) for each in owner.events]
    assert told[-1] == ("requested", f"try {', '.join(topics) or 'all that is set aside'} again")


@pytest.mark.parametrize("outcome", ["fails again", "rejoins", "was tried before"])
def test_who_asked_is_answered_once_it_was_tried(owner: Owner, outcome: str) -> None:
    events = len(owner.events)
    owner.ask("orders")
    if outcome == "was tried before":
        owner.topics.forget(["orders"])
    owner.look()
    if outcome == "fails again":
        owner.fail("orders")
    elif outcome == "rejoins":
        owner.topics.rejoin(["orders"])
    is_due = owner.look()

    assert owner.asked() == []
    assert not is_due, "one attempt for one request"
    assert [each.kind for each in owner.events[events:]].count("requested") == 1


def test_two_operators_have_it_tried_twice_and_are_both_answered(owner: Owner) -> None:
    owner.ask("orders")
    owner.look()
    owner.ask("orders")
    owner.fail("orders")
    is_due = owner.look()
    owner.fail("orders")
    owner.look()

    assert is_due
    assert owner.asked() == []


@pytest.mark.parametrize(
    "request_",
    [
        AcceptRequest("orders", "id-1", (0,), 17),
        MoveRequest(TopicPartition("orders", 0), Moving(18, Position(17, 9), "id-1")),
    ],
)
def test_a_decision_about_a_topic_makes_it_due_once(owner: Owner, request_: OwnerRequest) -> None:
    ask_owner(owner.access, FLOW, [request_])

    assert owner.look()
    owner.fail("orders")
    assert not owner.look()
    assert owner.waiting() == {"orders", "clicks", UNLED}


@pytest.mark.parametrize(
    ("topics", "found"),
    [([], [*ASIDE]), (["t-24", "t-25", "no-such"], ["t-24"])],
)
def test_what_is_set_aside_is_known_of_more_topics_than_have_a_condition_each(
    topics: list[str], found: list[str]
) -> None:
    rows = tuple(TopicFigures(name, None, "set-aside", "no rights", {}) for name in ASIDE)
    rows += (TopicFigures("t-25", "A.t-25", "copying", "", {}),)
    said = StatusEntry(Observation(FLOW, 1.0, "running", 1.0, topics=rows), 1, "me", 5.0, 1.0)
    group = LeaseGroup("g", "B", frozenset({"me"}))

    def of(state: SeenState, last: LastStatus) -> dict[str, str] | None:
        return aside_of(FlowAnswer(FLOW, state, "", last, 1.0, group), topics)

    assert of("running", LastStatus(said)) == dict.fromkeys(found, "no rights")
    assert of("silent", LastStatus(said)) is None
    assert of("stopped", LastStatus(said)) is None  # whose next start tries everything
    assert of("running", LastStatus(None, "no topic")) is None


@pytest.mark.parametrize("idle", [[FLOW], []])
def test_who_asks_learns_that_nobody_runs_the_flow_or_that_it_has_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[Flow]
) -> None:
    monkeypatch.setattr("replication.state.requests.ASK_SECONDS", 0.0)
    access = StateAccess(tmp_path.as_uri())

    def ask() -> bool:
        return request_retry(access, FLOW, RetryRequest(), 1, "", lambda _: idle)

    if idle:
        assert not ask()
    else:
        with pytest.raises(StateError, match="no process answered"):
            ask()
    assert list((tmp_path / "_control").iterdir()) == []
