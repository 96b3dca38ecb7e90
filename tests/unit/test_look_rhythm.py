"""How often the topics of running queries are looked at."""

from replication.flows.outages import OLD_SECONDS
from replication.flows.replicate.topic_ids import LOOK_SECONDS, REST_SECONDS, Rhythm, rest_seconds
from replication.kafka.watch import SILENT_SECONDS


def paused_after(*seconds: float) -> float:
    """The pause behind looks that took so long."""
    rhythm = Rhythm()
    for one in seconds:
        rhythm.took(one)
    return rhythm.pause


def test_a_quick_look_is_made_every_second() -> None:
    assert paused_after() == paused_after(0.02) == LOOK_SECONDS == 1


def test_looks_at_thousands_of_topics_take_a_tenth_of_the_time() -> None:
    assert paused_after(*[0.8] * 20) == 8


def test_looks_that_wait_for_a_silent_broker_do_not_become_rare() -> None:
    assert paused_after(0.02, 5, 5, 5) == LOOK_SECONDS


def test_at_rest_all_topics_are_looked_at_the_more_rarely_the_more_partitions_they_have() -> None:
    assert rest_seconds(1) == rest_seconds(1250) == REST_SECONDS == 2.5
    assert (rest_seconds(5000), rest_seconds(10_000)) == (10, 20)
    assert REST_SECONDS < OLD_SECONDS <= SILENT_SECONDS, "or a broker that left counts as a leader"
