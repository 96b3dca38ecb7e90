"""When a cluster counts as silent, and which partitions have no leader that answers."""

from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from replication.flows.outages import Leaderless, Leaders
from replication.kafka.watch import SILENT_SECONDS, Answers, Moment
from replication.model import Topic, TopicPartition

START = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
STEPS = st.lists(st.tuples(st.floats(0.1, 30), st.booleans()), max_size=40)


def moment(clock: float) -> Moment:
    return Moment(START + timedelta(seconds=clock), clock)


@given(STEPS)
def test_a_silence_lasts_from_its_last_answer_to_the_next_one(
    steps: list[tuple[float, bool]],
) -> None:
    answers = Answers(moment(0))
    now = last = 0.0
    unanswered = 0
    for pause, is_answered in steps:
        now += pause
        before = answers.silence
        answers.take("" if is_answered else "refused", moment(now))
        unanswered = 0 if is_answered else unanswered + 1
        if is_answered:
            assert answers.silence is None
            assert before is None or before.ended == now
            last = now
        elif before is None:
            is_silent = unanswered > 1 and now - last >= SILENT_SECONDS
            assert (answers.silence is not None) == is_silent
        if answers.silence is not None:
            assert (answers.silence.began, answers.silence.ended) == (last, None)
            assert answers.silence.since == START + timedelta(seconds=last)


def test_a_process_that_was_suspended_finds_no_outage() -> None:
    answers = Answers(moment(0))
    answers.take("", moment(1))
    answers.take("timed out", moment(600))

    assert answers.silence is None


def test_the_end_of_a_flow_waits_for_no_second_question() -> None:
    answers = Answers(moment(0))
    answers.take("refused", moment(1), patience=0)

    assert answers.silence is not None


def topic(*leaders: int | None) -> dict[str, Topic]:
    return {"t": Topic("A.t", "id", len(leaders), leaders=leaders)}


def test_each_broker_is_asked_for_one_of_its_partitions() -> None:
    leaders = Leaders()
    leaders.describe(topic(None, 2, 2, 1), 0.0)

    assert leaders.leads() == {1: TopicPartition("A.t", 3), 2: TopicPartition("A.t", 1)}


def test_a_partition_without_a_leader_is_said_once_and_no_election_is() -> None:
    leaders = Leaders()
    said = []
    for now in (10.0, 12.0, 13.0, 14.0):
        leaders.describe(topic(1, None), now)
        said.append(leaders.look({}, now)[0])
    leaders.describe(topic(1, 1), 20.0)
    _, ended = leaders.look({}, 20.0)

    assert [list(begun) for begun in said] == [[], [], [("t", 1)], []]
    assert {tp: (found.name, found.began) for tp, found in ended.items()} == {
        ("t", 1): ("A.t-1", 10.0)
    }
    leaders.describe(topic(1, None), 21.0)
    assert leaders.look({}, 21.0) == ({}, {})


def test_an_election_that_nobody_looked_at_again_is_not_said() -> None:
    leaders = Leaders()
    leaders.describe(topic(1, None), 10.0)

    assert [leaders.look({}, now) for now in (10.0, 20.0, 60.0)] == [({}, {})] * 3


def test_what_was_described_long_before_a_broker_fell_silent_says_nothing() -> None:
    leaders = Leaders()
    leaders.describe(topic(1, 2), 10.0)
    old = leaders.look({2: 30.0}, 40.0)
    leaders.describe(topic(1, 1), 41.0)  # it had moved before
    moved = leaders.look({2: 30.0}, 41.0)
    leaders.describe(topic(1, 2), 42.0)
    begun, _ = leaders.look({2: 30.0}, 42.0)

    assert (old, moved) == (({}, {}), ({}, {}))
    assert begun == {("t", 1): Leaderless("A.t-1", 30.0, 42.0, is_silent=True)}


def test_a_broker_that_is_silent_and_then_expelled_is_one_outage() -> None:
    leaders = Leaders()
    leaders.describe(topic(1, 2), 5.0)
    silent, _ = leaders.look({2: 5.0}, 12.0)
    was_silenced = leaders.silenced
    leaders.describe(topic(1, None), 14.0)
    expelled = leaders.look({}, 14.0)
    is_silenced = leaders.silenced
    leaders.describe(topic(1, 1), 15.0)  # another replica leads it now
    _, ended = leaders.look({}, 15.0)

    assert list(silent) == [("t", 1)]
    assert expelled == ({}, {})
    assert was_silenced == {("t", 1)}
    assert is_silenced == set(), "whoever describes it anew sees that it has no leader"
    assert [found.began for found in ended.values()] == [5.0]


def test_of_a_topic_that_nobody_describes_nothing_ends() -> None:
    leaders = Leaders()
    for now in (0.0, 5.0):
        leaders.describe(topic(None), now)
        leaders.look({}, now)
    leaders.describe({}, 6.0)

    assert leaders.look({}, 6.0) == ({}, {})
