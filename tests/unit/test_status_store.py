"""What is said of a flow: which word a reader keeps, and which topics have their turn."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.figures.observation import (
    GroupFigures,
    Observation,
    Owner,
    PartitionFigures,
    TopicFigures,
    TopicState,
    document,
)
from replication.figures.status_store import (
    MOST_MEMBERS,
    MOST_PARTITIONS,
    Holder,
    StatusStore,
    TopicStatuses,
    part_statuses,
    topic_key,
)
from replication.flows.publisher import (
    BURST_SECONDS,
    BYTES_PER_SECOND,
    TopicRotation,
    urgent_topics,
)
from replication.model import Flow, Part

FLOW = Flow("A", "B")
LOOK = Observation(FLOW, 1_000.0, "running", since=900.0, generation=3)


def say(
    words: StatusStore, look: Observation, epoch: int, at: float, part: Part = "records"
) -> None:
    """Lets a holder of *epoch* say *look* at that time."""
    say_as(words, look, Holder(epoch, f"m{epoch}", "w"), at, part)


def say_as(
    words: StatusStore, look: Observation, holder: Holder, at: float, part: Part = "records"
) -> None:
    """Lets *holder* say *look* at that time."""
    for key, value in part_statuses(look, {part: holder}, 5).items():
        words.take(key.encode(), value, at)
    for topic, word in TopicStatuses().take(look, holder).items():
        words.take(topic_key(topic).encode(), word, at)


def test_the_newest_word_counts_and_none_of_an_earlier_owner() -> None:
    words = StatusStore(FLOW)

    say(words, LOOK, 1, 10.0)
    say(words, replace(LOOK, state="waiting"), 2, 20.0)
    say(words, replace(LOOK, state="stopped"), 1, 30.0)

    last = words.last
    assert last is not None
    assert (last.observed.state, last.epoch, last.member, last.said_at) == ("waiting", 2, "m2", 20)
    assert last.patience == 20


def test_an_owner_whose_epochs_began_anew_is_heard_and_a_paused_one_is_not() -> None:
    words = StatusStore(FLOW)
    early, late = Owner("a", 1, since=100.0), Owner("b", 2, since=200.0)

    say(words, replace(LOOK, owner=early), 57, 10.0)
    say(words, replace(LOOK, owner=late, state="waiting"), 1, 20.0)
    assert words.last is not None
    assert (words.last.observed.state, words.last.epoch) == ("waiting", 1)

    say(words, replace(LOOK, owner=late), 2, 30.0)
    say(words, replace(LOOK, owner=early, state="stopped"), 1, 40.0)
    assert words.last.observed.state == "running"


ENDED = replace(LOOK, state="stopped", ended_at=150.0)
"""The last word of a flow, which has no owner any more."""


def test_an_owner_with_a_new_state_directory_is_heard_after_one_that_has_ended() -> None:
    words = StatusStore(FLOW)
    early, late = Holder(57, "m57", "w", since=100.0), Holder(1, "m1", "w", since=200.0)

    say_as(words, ENDED, early, 10.0)
    say_as(words, replace(LOOK, owner=Owner("b", 2, since=200.0)), late, 20.0)
    assert words.last is not None
    assert (words.last.observed.state, words.last.member) == ("running", "m1")

    say_as(words, replace(ENDED, state="drained"), late, 40.0)
    assert words.last.observed.state == "drained"


@given(st.permutations(["topic", "topic", "part", "part"]))
def test_topics_are_of_the_owner_that_is_heard_in_whatever_order_partitions_are_read(
    order: list[str],
) -> None:
    """Of each key an old word comes first. The new owner's epoch is of another state directory."""
    words, met = StatusStore(FLOW), set[str]()
    old, new = Holder(2, "m2", "w", since=100.0), Holder(1, "m1", "w", since=200.0)

    for what in order:
        holder, lag = (new, 1.0) if what in met else (old, 7.0)
        met.add(what)
        topic = TopicFigures("t", None, "copying", "", {"lag_records": lag})
        if what == "topic":
            said = TopicStatuses().take(replace(LOOK, topics=(topic,)), holder)["t"]
            words.take(topic_key("t").encode(), said, 1.0)
        else:
            for key, value in part_statuses(LOOK, {"records": holder}, 5).items():
                words.take(key.encode(), value, 1.0)

    assert words.last is not None
    assert [one.figures["lag_records"] for one in words.last.observed.topics] == [1.0]


def test_topics_that_the_owner_does_not_replicate_are_gone() -> None:
    words = StatusStore(FLOW)
    gone, kept = (TopicFigures(name, None, "copying", "", {}) for name in ("gone", "kept"))

    say(words, replace(LOOK, topics=(gone, kept)), 1, 10.0)
    say(words, replace(LOOK, topics=(kept,)), 2, 20.0)

    assert words.last is not None
    assert [topic.topic for topic in words.last.observed.topics] == ["kept"]


def test_a_word_of_another_flow_or_of_connect_is_none() -> None:
    words = StatusStore(FLOW)

    say(words, replace(LOOK, flow=Flow("C", "B")), 9, 10.0)
    words.take(b"status-connector-MirrorSourceConnector", b'{"state":"RUNNING"}', 11.0)
    words.take(b"status-connector-MirrorSourceConnector", None, 12.0)
    words.take(b"something", b"else", 13.0)

    assert words.last is None
    assert words.unreadable == ""


def test_a_word_of_a_later_version_is_named_and_an_earlier_one_stays() -> None:
    words = StatusStore(FLOW)

    say(words, LOOK, 1, 10.0)
    later = b'{"replication":{"v":2}}'
    words.take(b"status-connector-MirrorSourceConnector", later, 11.0)

    assert words.last is not None
    assert "another version" in words.unreadable


def test_topics_and_the_groups_of_another_process_are_put_together() -> None:
    words = StatusStore(FLOW)
    topics = tuple(TopicFigures(name, None, "copying", "", {}) for name in ("a", "b"))
    groups = (GroupFigures("g", {}, {"exact": 1}),)

    say(words, replace(LOOK, topics=topics), 1, 10.0)
    say(words, replace(LOOK, groups=groups), 7, 11.0, "checkpoints")
    words.take(topic_key("b").encode(), None, 12.0)

    last = words.last
    assert last is not None
    assert document(last.observed) == document(replace(LOOK, topics=topics[:1], groups=groups))


def test_the_last_word_is_put_together_when_something_came() -> None:
    words, topic = StatusStore(FLOW), TopicFigures("a", None, "copying", "", {"lag_records": 7.0})
    say(words, replace(LOOK, topics=(topic,)), 1, 10.0)
    first = words.last

    assert words.last is first
    say(words, replace(LOOK, as_of=2_000.0, topics=(topic,)), 1, 15.0)
    later = words.last
    assert later is not None
    assert later is not first
    assert (later.observed.as_of, later.observed.topics) == (2_000.0, (topic,))


def test_a_topic_of_another_version_is_named_and_the_others_stay() -> None:
    words, topic = StatusStore(FLOW), TopicFigures("a", None, "copying", "", {})
    say(words, replace(LOOK, topics=(topic,)), 1, 10.0)
    key = topic_key("b").encode()
    words.take(key, b'{"topic":{"replication":{"v":1,"epoch":1,"row":{"topic":"b"}}}}', 11.0)

    assert words.last is not None
    assert words.last.observed.topics == (topic,)
    assert "another version" in words.unreadable


OWNER = Holder(7, "owner", "w", since=900.0)


def forge(words: StatusStore, at: float, who: str, by: int = 2**40, **others: Any) -> None:  # noqa: ANN401
    """Lets a stranger say that the flow runs, with *others* in the place of what a word has."""
    for key, value in part_statuses(LOOK, {"records": Holder(by, who, "x")}, 5).items():
        found = json.loads(value or b"{}")
        found["replication"] |= {"since": 1e11, **others}
        words.take(key.encode(), json.dumps(found).encode(), at)


@pytest.mark.parametrize(
    "others",
    [
        {"member": ""}, {"member": 7}, {"interval": 1e9}, {"interval": 0}, {"interval": True},
        {"interval": float("nan")}, {"interval": 10**400}, {"epoch": 2.5}, {"epoch": 2**63},
        {"epoch": -1}, {"since": float("inf")}, {"since": "now"}, {"observation": []},
        {"observation": None}, {"member": "\ud800"},
    ],
)  # fmt: skip
def test_a_word_with_a_value_that_no_owner_has_is_left_and_named(others: dict[str, Any]) -> None:
    words = StatusStore(FLOW)
    say_as(words, LOOK, OWNER, 1_000.0)

    forge(words, 1_001.0, "stranger", **others)

    assert words.last is not None
    assert words.last.speaker == (7, "owner")
    assert words.unreadable


@pytest.mark.parametrize(("key", "row"), [("t", "other"), ("a topic", "a topic")])
def test_a_word_of_a_topic_is_of_the_one_in_its_key_or_is_left_and_named(
    key: str, row: str
) -> None:
    words, known = StatusStore(FLOW), TopicFigures("t", None, "copying", "", {})
    say_as(words, replace(LOOK, topics=(known,)), OWNER, 1_000.0)

    look = replace(LOOK, topics=(replace(known, topic=row),))
    words.take(topic_key(key).encode(), TopicStatuses().take(look, OWNER)[row], 1_001.0)

    assert words.last is not None
    assert words.last.observed.topics == (known,)
    assert words.unreadable


def test_an_epoch_that_no_owner_reaches_silences_nobody() -> None:
    words = StatusStore(FLOW)
    forge(words, 1_000.0, "stranger")
    say_as(words, LOOK, OWNER, 1_010.0)
    words.note_members("records", frozenset({"owner", "standby"}))
    assert words.last is not None
    assert words.last.member == "owner", "whom the lease's group has"

    forge(words, 1_011.0, "owner")
    forge(words, 1_012.0, "standby", by=2**50)
    say_as(words, replace(LOOK, state="failed"), OWNER, 1_015.0)
    assert (words.last.observed.state, words.last.epoch) == ("failed", 7), "the owner goes on"

    words.note_members("records", frozenset())
    forge(words, 1_020.0, "another")
    assert words.last.member == "owner", "whom the group once had"
    words.note_members("records", None)
    assert words.last.member == "owner", "what is not known changes nothing"


def test_without_an_answer_of_the_group_a_silent_stranger_gives_way() -> None:
    words = StatusStore(FLOW)
    forge(words, 1_000.0, "stranger", interval=31_536_000)
    say_as(words, LOOK, OWNER, 1_010.0)
    assert words.last is not None
    assert words.last.member == "stranger", "nobody can tell yet"

    say_as(words, LOOK, OWNER, 1_025.0)
    assert words.last.member == "owner"


def test_words_of_many_strangers_take_little_memory_and_none_from_the_owner() -> None:
    words, topic = StatusStore(FLOW), TopicFigures("t", None, "copying", "", {"lag_records": 1.0})
    words.note_members("records", frozenset({"owner"}))
    say_as(words, replace(LOOK, topics=(topic,)), OWNER, 1_000.0)
    for n in range(100):
        forge(words, 1_001.0, f"stranger{n}", by=1_000 + n)
        forged = TopicStatuses().take(replace(LOOK, topics=(topic,)), Holder(9, f"s{n}", "x"))["t"]
        words.take(topic_key("t").encode(), forged, 1_001.0)

    assert words.last is not None
    assert (words.last.member, words.last.observed.topics) == ("owner", (topic,))
    assert len(words._said["records"]) <= MOST_MEMBERS  # noqa: SLF001 - what the bound is for
    assert len(words._topics["t"]) <= MOST_MEMBERS  # noqa: SLF001 - the same


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, b'{"replication":' * 50_000, b" " * (9 << 20), b"\xed\xa0\x80", b"NaN"],
)
def test_a_record_without_an_end_is_no_word(value: bytes) -> None:
    words = StatusStore(FLOW)
    for key in (b"status-connector-MirrorSourceConnector", topic_key("t").encode()):
        words.take(key, value, 1.0)

    assert words.last is None


ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["\ud800", 10**400, 1e308, "running", "2026-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)  # fmt: skip


@given(st.data(), ODD)
def test_whatever_a_word_has_in_it_can_be_shown_or_is_left(
    data: st.DataObject, odd: object
) -> None:
    """Some value, anywhere in a word of the owner, is another one."""
    topic = TopicFigures(
        "t", "A.t", "copying", "", {"lag_records": 1.0}, {"0.5": 0.1},
        (PartitionFigures(0, "copying", {"position": 4.0}),),
    )  # fmt: skip
    groups = (GroupFigures("g", {"group_lag_records": 1.0}, {"exact": 1}),)
    look = replace(LOOK, owner=Owner("h", 1, 900.0), groups=groups)
    said = [*part_statuses(look, {"records": OWNER}, 5).items()]
    said += [
        (topic_key(n), v)
        for n, v in TopicStatuses().take(replace(LOOK, topics=(topic,)), OWNER).items()
    ]
    words = StatusStore(FLOW)
    for key, value in said:
        at = found = json.loads(value or b"null")
        while isinstance(at, dict | list) and at:
            place = data.draw(
                st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at)))
            )
            if not isinstance(at[place], dict | list) or data.draw(st.integers(0, 5)) == 0:
                at[place] = odd
                break
            at = at[place]
        words.take(key.encode(), json.dumps(found).encode(), 1_000.0)

    if (last := words.last) is not None:
        json.dumps(document(last.observed), allow_nan=False, ensure_ascii=False).encode()
        assert 0 < last.patience < 10**9
    assert words.of("records") == words.of("records")


VALUES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3).map(lambda n: b"x" * n * 700))


@given(st.lists(st.tuples(VALUES, st.floats(0, 10)), max_size=20))
def test_topics_are_written_when_they_have_changed_and_within_the_bound(
    looks: list[tuple[dict[str, bytes], float]],
) -> None:
    turns, known = TopicRotation(0.0), dict[str, bytes]()
    now = written = 0.0
    for values, pause in looks:
        now += pause
        taken = turns.take(values, now)
        for topic, value in taken.items():
            if value is None:
                assert topic not in values
                del known[topic]
            else:
                assert value == values[topic] != known.get(topic)
                known[topic] = value
                written += len(value)
        assert written <= (BURST_SECONDS + now) * BYTES_PER_SECOND + 2_100


def test_the_longest_unsent_topic_is_next() -> None:
    turns = TopicRotation(0.0)
    size = int(BYTES_PER_SECOND * BURST_SECONDS)
    first = {"a": b"1" * size, "b": b"1" * size, "c": b"1" * size}

    order = [list(turns.take(first, at)) for at in (0.0, 10.0, 20.0)]
    again = dict.fromkeys(first, b"2" * size)
    order += [list(turns.take(again, at)) for at in (30.0, 40.0, 50.0)]

    assert order == [["a"], ["b"], ["c"], ["a"], ["b"], ["c"]]


def test_the_one_of_many_topics_that_lags_is_told_at_once_and_its_end_as_well() -> None:
    turns, size = TopicRotation(0.0), 500
    names = [f"t{number:04}" for number in range(5000)]
    late = names[-1]
    values = dict.fromkeys(names, b"1" * size)

    assert late in turns.take(values, 0.0, [late])
    values = dict.fromkeys(names, b"2" * size)
    taken = turns.take(values, 5.0, [late])
    assert late in taken
    assert len(taken) == 5 * BYTES_PER_SECOND / size  # the others go on as well
    assert late not in turns.take(values, 10.0, [late])  # it has said all
    values = dict.fromkeys(names, b"3" * size)
    assert late in turns.take(values, 15.0)
    values = dict.fromkeys(names, b"4" * size)
    assert late not in turns.take(values, 20.0)  # one of many again


def test_many_topics_that_lag_leave_half_to_the_others() -> None:
    turns = TopicRotation(0.0)
    values = dict.fromkeys("abcdefghij", b"1" * 1000)
    values |= dict.fromkeys((f"late-{number}" for number in range(100)), b"1" * 1000)

    taken = turns.take(values, 0.0, [name for name in values if name.startswith("late")])
    assert sum(name.startswith("late") for name in taken) == len(taken) / 2 == 10


def test_the_topics_that_lag_most_are_urgent() -> None:
    def topic(name: str, state: TopicState, lag: float) -> TopicFigures:
        return TopicFigures(name, None, state, "", {"lag_seconds": lag})

    many = [topic(f"t{number}", "lagging", float(number)) for number in range(100)]
    well = topic("well", "copying", 500.0), topic("asked for", "paused", 900.0)
    looked = replace(LOOK, topics=(*well, *many))
    assert urgent_topics(looked) == [f"t{number}" for number in range(99, 79, -1)]


def test_of_many_partitions_those_that_stall_are_said_first_then_the_paused_ones() -> None:
    """A paused one is behind by far, and would take the place of what needs a look."""
    states: list[tuple[TopicState, float]] = [("paused", 900.0)] * MOST_PARTITIONS
    states += [("stalled", 130.0), ("lagging", 1000.0), ("copying", 0.0)]
    parts = tuple(
        PartitionFigures(number, state, {"lag_seconds": seconds})
        for number, (state, seconds) in enumerate(states)
    )
    words = StatusStore(FLOW)
    say(
        words,
        replace(LOOK, topics=(TopicFigures("t", "A.t", "stalled", "", {}, {}, parts),)),
        1,
        9.0,
    )

    assert words.last is not None
    (said,) = words.last.observed.topics
    found = [part.state for part in said.partitions]
    assert sorted(found) == ["paused"] * (MOST_PARTITIONS - 1) + ["stalled"]


def test_the_word_of_a_topic_is_made_again_if_it_or_its_speaker_is_another_one() -> None:
    def topic(name: str, lag: float) -> TopicFigures:
        return TopicFigures(name, None, "copying", "", {"lag_records": lag})

    made, holder = TopicStatuses(), Holder(1, "m", "w")
    look = replace(LOOK, topics=(topic("t", 0), topic("u", 0)))
    first = made.take(look, holder)
    second = made.take(replace(look, topics=(topic("t", 0), topic("u", 7))), holder)
    third = made.take(replace(look, topics=(topic("t", 0),)), replace(holder, epoch=2))

    assert second["t"] is first["t"]
    assert b'"lag_records":7' in second["u"]
    assert third.keys() == {"t"}
    assert b'"epoch":2' in third["t"]


def test_nobody_has_a_lease_from_a_time_to_come_on() -> None:
    words = StatusStore(FLOW)

    say_as(
        words, replace(LOOK, state="stopped"), Holder(2**40, "stranger", "w", since=1e11), 1_000.0
    )
    say_as(words, replace(LOOK, state="waiting"), Holder(1, "owner", "w", since=90_000.0), 90_001.0)

    assert words.last is not None
    assert words.last.member == "owner"
