"""Attempts at a growing interval: failures and times in, pauses and due keys out."""

from replication.backoff import Backoff
from replication.topics.topic_plan import RetryTimes


def test_each_failure_doubles_the_pause_up_to_the_longest() -> None:
    times = RetryTimes[str](Backoff(10, 60))

    assert [times.failed("t", now=0) for _ in range(5)] == [10, 20, 40, 60, 60]


def test_a_key_waits_until_its_next_attempt_is_due() -> None:
    times = RetryTimes[str](Backoff(10, 60))
    times.failed("early", now=0)
    times.failed("late", now=5)

    assert times.waiting(9) == {"early", "late"}
    assert not times.is_due(9)
    assert times.waiting(10) == {"late"}
    assert times.is_due(10)


def test_after_a_success_the_next_failure_is_a_first_one() -> None:
    times = RetryTimes[str](Backoff(10, 60))
    times.failed("t", now=0)
    times.failed("t", now=0)

    times.succeeded("t")

    assert not times.is_due(100)
    assert times.failed("t", now=0) == 10


def test_a_key_can_be_made_due_at_once() -> None:
    times = RetryTimes[str](Backoff(10, 100))
    times.failed("a", 0)
    times.failed("a", 0)

    times.retry_now("a", 5)

    assert times.is_due(5)
    assert times.failed("a", 5) == 10
