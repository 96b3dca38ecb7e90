"""A new owner waits until nothing of the last one can write any more."""

import pytest

from replication.kafka.ownership import QUICK, STEADY, LeaseTimes
from replication.state.lease import (
    AFTER_ANY_END,
    AFTER_DEATH,
    AFTER_EXPULSION,
    EXECUTOR_SECONDS,
    FLUSH_SECONDS,
    REACTION_SECONDS,
    LastOwner,
    handover_seconds,
)

HERE, ELSEWHERE = "boot-1 8:15", "boot-2 8:15"
RELEASED = LastOwner("first", released=True, machine=ELSEWHERE, executors="local")
CRASHED_HERE = LastOwner("first", released=False, machine=HERE, executors="local")
CRASHED_ELSEWHERE = LastOwner("first", released=False, machine=ELSEWHERE, executors="local")
DRIVER_CRASHED_HERE = LastOwner("first", released=False, machine=HERE, executors="cluster")
OF_AN_EARLIER_VERSION = LastOwner("first", released=False)
QUICK_ONE = LastOwner("first", False, ELSEWHERE, "local", QUICK.silence)
QUICK_DRIVER = LastOwner("first", False, ELSEWHERE, "cluster", QUICK.silence)
STEADY_ONE = LastOwner("first", False, ELSEWHERE, "local", STEADY.silence)

KILLED_TO_COPIED = 15.0
START = 2.5
"""What is left of these seconds for a start by a warm standby, beside the waits."""


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        pytest.param(None, 0, id="the first owner"),
        pytest.param(RELEASED, 0, id="released"),
        pytest.param(
            CRASHED_HERE, AFTER_DEATH, id="its lock is ours, and its tasks ran in its process"
        ),
        pytest.param(CRASHED_ELSEWHERE, AFTER_ANY_END, id="of another machine"),
        pytest.param(DRIVER_CRASHED_HERE, AFTER_ANY_END, id="its executors may live on"),
        pytest.param(OF_AN_EARLIER_VERSION, AFTER_ANY_END, id="of an earlier version"),
    ],
)
def test_a_process_that_the_group_names_at_once(last: LastOwner | None, seconds: float) -> None:
    assert handover_seconds(last, machine=HERE, joined_in=3.5) == seconds


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        pytest.param(RELEASED, 0, id="released"),
        pytest.param(
            CRASHED_HERE, AFTER_DEATH, id="its lock is ours, and its tasks ran in its process"
        ),
        pytest.param(CRASHED_ELSEWHERE, AFTER_EXPULSION, id="of another machine"),
        pytest.param(DRIVER_CRASHED_HERE, AFTER_EXPULSION, id="its executors may live on"),
        pytest.param(None, AFTER_EXPULSION, id="its state directory is another one"),
        pytest.param(QUICK_ONE, 5, id="it falls silent soon"),
        pytest.param(STEADY_ONE, 16, id="nobody was to stand by for it"),
        pytest.param(QUICK_DRIVER, AFTER_EXPULSION, id="it falls silent, its executors do not"),
    ],
)
def test_a_standby_that_saw_the_last_owner(last: LastOwner | None, seconds: float) -> None:
    assert handover_seconds(last, machine=HERE, seen="first") == seconds


def test_the_release_of_an_earlier_owner_says_nothing_of_the_last_one() -> None:
    assert handover_seconds(RELEASED, machine=HERE, seen="second") == AFTER_EXPULSION


@pytest.mark.parametrize("last", [None, RELEASED])
def test_a_slow_join_means_that_a_silent_member_was_expelled(last: LastOwner | None) -> None:
    assert handover_seconds(last, machine=HERE, joined_in=10.0) == AFTER_ANY_END


@pytest.mark.parametrize("times", [QUICK, STEADY])
@pytest.mark.parametrize("executors", ["local", "cluster"])
@pytest.mark.parametrize("is_known", [True, False])
def test_no_owner_writes_until_the_last_one_has_stopped_wherever_it_ran(
    times: LeaseTimes, executors: str, *, is_known: bool
) -> None:
    """What the times must be for each other, whatever they are."""
    last = LastOwner("first", False, ELSEWHERE, executors, times.silence)
    # The owner counts from the sending of a heartbeat; the coordinator expels it a session after it
    # has come.
    named = times.session
    wait = handover_seconds(last if is_known else None, machine=HERE, seen="first")
    last_word = times.silence + FLUSH_SECONDS
    if executors == "cluster":
        last_word = max(times.silence, EXECUTOR_SECONDS) + REACTION_SECONDS

    assert named + wait >= last_word
    alone = max(times.alone, last_word - FLUSH_SECONDS) + FLUSH_SECONDS
    assert alone <= AFTER_ANY_END, "whoever has not seen it may have to do with one that was alone"


@pytest.mark.parametrize("times", [QUICK, STEADY])
def test_a_member_that_dies_ends_no_healthy_owner(times: LeaseTimes) -> None:
    assert times.rebalance >= times.session, "it is expelled within a rebalance, and not named"
    assert times.silence >= times.session + times.staleness, "which no heartbeat of others survives"
    assert times.turn < FLUSH_SECONDS, "its producers are closed by then"


def test_a_standby_copies_15_seconds_after_the_end_of_the_owner() -> None:
    slowest = QUICK.session + QUICK.heartbeat + QUICK.turn  # until it is named
    wait = handover_seconds(QUICK_ONE, machine=HERE, seen="first")

    assert slowest + wait + START <= KILLED_TO_COPIED


def test_mirrors_of_before_wait_long_enough_for_those_of_now() -> None:
    """They waited 16 s once a session had expelled the last owner, whose silence ended by 20 s."""
    assert QUICK.silence + REACTION_SECONDS <= QUICK.session + 16
    assert STEADY.silence + REACTION_SECONDS <= STEADY.session - 2 + 16
