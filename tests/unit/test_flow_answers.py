"""How a flow is, by its last word, the group of its lease, and the tables."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from replication.cli.status import figures_line, flow_lines
from replication.control.flow_answers import (
    FlowAnswer,
    LastStatus,
    SeenState,
    judge,
    judge_by_tables,
)
from replication.control.lease_groups import Answer, LeaseGroup
from replication.control.status import End, FlowStatus
from replication.control.written import Process
from replication.figures.observation import ClusterFigures, FlowState, Observation
from replication.figures.status_store import StatusEntry
from replication.model import Flow
from replication.serve.answers import clusters_of, flow_answer
from replication.serve.snapshots import seen_of
from replication.state.executions import Ending

FLOW = Flow("A", "B")
NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)


def word(state: FlowState, member: str = "me") -> StatusEntry:
    """What was said last; the next word is due after 5 s."""
    clusters = (ClusterFigures("A", is_reachable=True),)
    return StatusEntry(Observation(FLOW, 1.0, state, 1.0, clusters=clusters), 1, member, 5.0, 1.0)


def group(*members: str) -> LeaseGroup:
    """The group of the lease."""
    return LeaseGroup("g", "B", frozenset(members))


UNKNOWN = LeaseGroup("g", "B", None, "cluster B does not answer")


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (
            {"lag_records": 3000.0, "lag_seconds": 9.0, "rpo_seconds": 9.0},
            "lag {}3 000 records, 9.0 s   RPO {}9.0 s",
        ),
        ({"lag_records": 3000.0}, "lag {}3 000 records"),
    ],
)
def test_a_lag_that_partitions_are_missing_from_is_said_to_be_at_least_that(
    figures: dict[str, float], expected: str
) -> None:
    def line(unknown: int, **found: float) -> str:
        shown = {**found, "lag_unknown_partitions": float(unknown)}
        return figures_line(Observation(FLOW, 1.0, "running", 1.0, figures=shown))

    assert line(0, **figures) == expected.format("", "")
    assert line(2, **figures) == expected.format("at least ", "at least ")
    assert line(2) == "lag unknown"


@pytest.mark.parametrize(
    ("said", "witness", "age", "expected"),
    [
        pytest.param(word("running"), group("me"), 4, "running", id="well"),
        pytest.param(word("running"), group("me", "standby"), 20, "running", id="two words lost"),
        pytest.param(word("running"), group("me"), 21, "silent", id="hangs, with its lease"),
        pytest.param(word("running"), group(), 1, "silent", id="was killed a moment ago"),
        pytest.param(word("running"), group("standby"), 1, "silent", id="about to be taken over"),
        pytest.param(word("running"), UNKNOWN, 20, "running", id="the group is unknown"),
        pytest.param(word("running"), UNKNOWN, 21, "silent", id="unknown, and overdue"),
        pytest.param(word("running", ""), group(), 20, "running", id="a part without a lease"),
        pytest.param(word("stopped"), group(), 9_999, "stopped", id="the last word stays"),
        pytest.param(word("failed"), UNKNOWN, 9_999, "failed", id="of a failure, too"),
        pytest.param(word("waiting"), group("me"), 1, "waiting", id="waits"),
    ],
)
def test_an_old_word_is_never_taken_for_true(
    said: StatusEntry, witness: LeaseGroup, age: float, expected: str
) -> None:
    state, why = judge(said, witness, age)

    assert (state, bool(why)) == (expected, expected == "silent")


def test_a_process_that_has_ended_was_not_killed_although_it_did_not_give_the_lease_back() -> None:
    process = Process("h", NOW, None)
    end = End(NOW + timedelta(seconds=9), "stopped", 0, None)
    told = FlowStatus(FLOW, process, "nobody", end, ())

    state, why = judge_by_tables(told, UNKNOWN)
    lines = list(flow_lines(FlowAnswer(FLOW, state, why, LastStatus(), None, UNKNOWN, told)))

    assert state == "stopped"
    assert "stopped: h took it" in lines[0]
    assert "next:" not in lines[0]
    assert not [line for line in lines if "killed" in line or "silent" in line]


@pytest.mark.parametrize(
    ("liveness", "released", "ending", "expected"),
    [
        pytest.param("member", False, None, "running", id="lives"),
        pytest.param("nobody", False, "stopped", "silent", id="was killed after a stop"),
        pytest.param("other", False, None, "silent", id="about to be taken over"),
        pytest.param("unknown", False, None, "unknown", id="nobody can tell"),
        pytest.param(None, True, None, "stopped", id="given back"),
        pytest.param(None, True, "finished", "drained", id="drained"),
        pytest.param(None, True, "failed", "failed", id="failed"),
    ],
)
def test_without_a_word_the_tables_answer(
    *, liveness: Answer | None, released: bool, ending: Ending | None, expected: str
) -> None:
    process = Process("h", NOW, NOW if released else None)
    end = End(NOW, ending, 0, None) if ending else None

    state, _ = judge_by_tables(FlowStatus(FLOW, process, liveness, end, ()), UNKNOWN)

    assert state == expected


@pytest.mark.parametrize(
    ("said", "witness", "expected"),
    [
        (word("running"), group("me"), None),
        (word("running"), group("me", "one", "two"), 2),
        (word("running"), group("one"), 1),
        (word("running", ""), group("one"), None),
        (word("running"), UNKNOWN, None),
        (None, group("one"), None),
    ],
)
def test_who_else_is_in_the_group_of_the_lease_stands_by(
    said: StatusEntry | None, witness: LeaseGroup, expected: int | None
) -> None:
    assert FlowAnswer(FLOW, "running", "", LastStatus(said), 1.0, witness).standbys == expected


@pytest.mark.parametrize(
    ("state", "said", "expected"),
    [
        ("running", word("running"), "ok"),
        ("silent", word("running"), "bad"),
        ("failed", word("failed"), "bad"),
        ("stopped", word("stopped"), "ok"),
        ("running", None, "unknown"),
        ("drained", None, "ok"),
        ("unknown", None, "unknown"),
    ],
)
def test_health_is_of_now_for_commands_and_for_whoever_serves(
    state: SeenState, said: StatusEntry | None, expected: str
) -> None:
    answer = FlowAnswer(FLOW, state, "why", LastStatus(said), 67.0, UNKNOWN)
    seen = seen_of(answer)
    served = flow_answer(seen)

    assert (answer.health, seen.health, served["health"] or "unknown") == (expected,) * 3
    assert served["stale"] is (state != "running" or said is None)
    assert seen.unanswered == UNKNOWN.reason
    reachable = [row["reachable"] for _, row in clusters_of([seen])]
    assert reachable == ([] if said is None else [True if state == "running" else None])


def test_figures_of_before_have_their_age_and_the_silent_cluster_its_name() -> None:
    figures = {"lag_records": 7.0, "lag_seconds": 2.0, "catch_up_seconds": 61.0}
    first = {"partitions": {"catching-up": 1.0}}
    observed = replace(word("running").observed, figures=figures, labelled=first)
    said = replace(word("running"), observed=observed)
    state, why = judge(said, UNKNOWN, 212)
    lines = list(flow_lines(FlowAnswer(FLOW, state, why, LastStatus(said), 212.0, UNKNOWN)))

    assert "cluster B does not answer" in lines[0]
    assert lines[0].endswith("   next: python -m replication doctor FILE")  # as on its page
    assert "catching up, 1 min 1 s left" in lines[1]
    assert lines[1].endswith("(of 3 min 32 s before)")


def test_what_never_ran_is_unknown() -> None:
    assert judge_by_tables(FlowStatus(FLOW, None, None, None, ()), group())[0] == "unknown"
    assert judge_by_tables(None, UNKNOWN)[0] == "unknown"
