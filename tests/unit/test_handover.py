"""A new owner waits until nothing of the last one can write any more."""

import pytest

from replication.kafka.ownership import REBALANCE_SECONDS, SESSION_SECONDS, SILENCE_SECONDS
from replication.state.handover import (
    AFTER_ANY_END,
    AFTER_DEATH,
    AFTER_EXPULSION,
    EXECUTOR_SECONDS,
    HEARTBEAT_SECONDS,
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
    ],
)
def test_a_standby_that_saw_the_last_owner(last: LastOwner | None, seconds: float) -> None:
    assert handover_seconds(last, machine=HERE, seen="first") == seconds


def test_the_release_of_an_earlier_owner_says_nothing_of_the_last_one() -> None:
    assert handover_seconds(RELEASED, machine=HERE, seen="second") == AFTER_EXPULSION


@pytest.mark.parametrize("last", [None, RELEASED])
def test_a_slow_join_means_that_a_silent_member_was_expelled(last: LastOwner | None) -> None:
    assert handover_seconds(last, machine=HERE, joined_in=10.0) == AFTER_ANY_END


def test_no_owner_writes_until_the_last_one_has_stopped_wherever_it_ran() -> None:
    """What the times must be for each other, whatever they are."""
    last_word = max(SILENCE_SECONDS, EXECUTOR_SECONDS) + REACTION_SECONDS
    # The coordinator expels a member a session after its last heartbeat. The member may have heard
    # an answer a heartbeat's time after it, and counts its silence from there.
    heard_before_expulsion = SESSION_SECONDS - HEARTBEAT_SECONDS

    assert last_word <= AFTER_ANY_END
    assert last_word <= heard_before_expulsion + AFTER_EXPULSION
    assert SILENCE_SECONDS > REBALANCE_SECONDS, "a rebalance must not end a healthy owner"
    assert REBALANCE_SECONDS > SESSION_SECONDS, "a dead member is expelled within a rebalance"
    assert REACTION_SECONDS > 0
