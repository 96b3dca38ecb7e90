"""Where operators want partitions to go on, on a command line and in files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.errors import ConfigError
from replication.model import Reset, TopicPartition
from replication.offsets.moved import (
    LARGEST_OFFSET,
    Goal,
    MoveTo,
    Place,
    connect_offsets,
    offset_of_goal,
    parse_goal,
    read_goals,
)

GOALS = [
    ("earliest", Goal("earliest")),
    ("latest", Goal("latest")),
    ("4711", Goal("offset", 4711)),
    ("0", Goal("offset", 0)),
    ("+10", Goal("shift", 10)),
    ("-10", Goal("shift", -10)),
    ("2026-11-01T00:00:00Z", Goal("time", 1_793_491_200_000)),
    ("2026-11-01T01:00:00.5+01:00", Goal("time", 1_793_491_200_500)),
    (str(LARGEST_OFFSET), Goal("offset", LARGEST_OFFSET)),
]


@pytest.mark.parametrize(("text", "goal"), GOALS)
def test_a_goal_is_read_as_written(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


WRONG = [
    ("", "is none of"),
    ("soon", "is none of earliest, latest, an offset"),
    ("Earliest", "is none of"),
    ("1.5", "is none of"),
    ("--5", "is none of"),
    ("٣", "is none of"),  # a digit of another script
    (str(LARGEST_OFFSET + 1), "greater than any offset"),
    ("9" * 5000, "is none of"),
    ("2026-11-01T00:00:00", "write 2026-11-01T00:00:00Z for UTC"),
    ("2026-11-01", "has no time zone"),
    ("1969-12-31T00:00:00Z", "before 1970"),
]


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_what_is_no_goal_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_goal(text)


@given(st.text(max_size=30))
def test_any_text_is_a_goal_or_an_error(text: str) -> None:
    try:
        goal = parse_goal(text)
    except ValueError:
        return
    assert goal.kind == "shift" or goal.value >= 0


OFFSETS: list[tuple[Goal, Reset, MoveTo]] = [
    (Goal("earliest"), "latest", "earliest"),
    (Goal("latest"), "earliest", 120),
    (Goal("reset"), "earliest", "earliest"),
    (Goal("reset"), "latest", 120),
    (Goal("offset", 7), "earliest", 7),
    (Goal("shift", 5), "earliest", 105),
    (Goal("shift", -500), "earliest", -400),
    (Goal("time", 1), "earliest", 77),
]


@pytest.mark.parametrize(("goal", "reset", "to"), OFFSETS)
def test_a_goal_becomes_an_offset(goal: Goal, reset: Reset, to: MoveTo) -> None:
    assert offset_of_goal(goal, Place(100, 120, 77, reset)) == to


def test_a_time_after_the_last_record_is_the_logs_end() -> None:
    assert offset_of_goal(Goal("time", 1), Place(100, 120, None, "earliest")) == 120


def test_a_file_of_lines_is_read_whole() -> None:
    text = 'orders,0,4711\n\n"a,b", 1 , earliest\norders,2,-10\n'

    assert read_goals("moves.csv", text, "A") == (
        {
            TopicPartition("orders", 0): Goal("offset", 4711),
            TopicPartition("a,b", 1): Goal("earliest"),
            TopicPartition("orders", 2): Goal("shift", -10),
        },
        [],
    )


def test_a_line_that_is_wrong_is_named_and_the_others_count() -> None:
    text = "orders,0,1\norders,one,2\norders,2,3\norders,2,4\n" + "x" * 200_000 + ",0,1\nt,0,5\n"

    goals, left_out = read_goals("moves.csv", text, "A")

    assert goals == {
        TopicPartition("orders", 0): Goal("offset", 1),
        TopicPartition("t", 0): Goal("offset", 5),
    }
    assert [line.partition(":")[0] for line in left_out] == ["line 2", "line 4", "line 5"]
    assert "orders-2 stands there twice; none of them counts" in left_out[1]


def entry(topic: object, partition: object, offset: object, cluster: object = "A") -> object:
    place = {"cluster": cluster, "topic": topic, "partition": partition}
    return {"partition": place, "offset": offset}


def test_what_connect_takes_is_read_and_its_offset_is_the_last_copied_one() -> None:
    offsets = [entry("orders", 0, {"offset": 41}), entry("orders", 1, None)]

    assert read_goals("moves.json", json.dumps({"offsets": offsets}), "A")[0] == {
        TopicPartition("orders", 0): Goal("offset", 42),
        TopicPartition("orders", 1): Goal("reset"),
    }


@given(
    st.dictionaries(
        st.tuples(st.text(min_size=1), st.integers(0, 2**31 - 1)), st.integers(1, LARGEST_OFFSET)
    )
)
def test_what_is_shown_as_connect_does_is_read_back(positions: dict[tuple[str, int], int]) -> None:
    by_partition = {TopicPartition(*tp): offset for tp, offset in positions.items()}
    shown = json.dumps({"offsets": connect_offsets("A", by_partition)})

    if positions:
        assert read_goals("f", shown, "A")[0] == {
            tp: Goal("offset", offset) for tp, offset in by_partition.items()
        }


WRONG_FILES = [
    ("", "file is empty"),
    ("orders,0\n", r"line 1: 'orders,0' has 2 fields; expected topic,partition,goal"),
    ("orders,x,1\n", "line 1: partition 'x' must be its number"),
    (f"orders,{2**31},1\n", "must be its number"),
    (",0,1\n", "the topic is empty"),
    ("orders,0,soon\n", "line 1: 'soon' is none of"),
    ("orders,0,1\norders,0,2\n", "line 2: orders-0 stands there twice"),
    ("{", "neither CSV nor JSON"),
    ('{"a":' * 100_000, "neither CSV nor JSON"),
    ("{}", "there is no list of this name"),
    *(
        (json.dumps({"offsets": [wrong]}), "offset 1: expected")
        for wrong in (
            1,
            {},
            entry("t", -1, None),
            entry("t", True, None),
            entry(1, 0, None),
            entry("", 0, None),
            entry("t", 0, 5),
            entry("t", 0, {"offset": "5"}),
            entry("t", 0, {"offset": -2}),
            {"partition": {"cluster": "A", "topic": "t", "partition": 0}},
        )
    ),
    (json.dumps({"offsets": [entry("t", 0, None, "B")]}), "cluster 'B' is not A"),
]


@pytest.mark.parametrize(("text", "why"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_goals("moves", text, "A")


def test_a_partition_of_which_nothing_was_copied_is_absent() -> None:
    assert connect_offsets("A", {TopicPartition("t", 0): 0}) == []
