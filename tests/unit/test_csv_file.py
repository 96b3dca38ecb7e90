"""The CSV of group offsets, as kafka-consumer-groups writes and reads it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replication.errors import ConfigError
from replication.groups.csv_file import GroupOffset, from_csv, to_csv
from replication.model import TopicPartition

OFFSETS = [
    GroupOffset("a, b", TopicPartition("t", 1), 7),
    GroupOffset("g", TopicPartition("t", 0), 0),
]


def test_each_line_is_group_topic_partition_offset() -> None:
    assert to_csv(reversed(OFFSETS)) == '"a, b",t,1,7\ng,t,0,0\n'


def test_offsets_survive_a_round_trip() -> None:
    assert from_csv("f", "\n" + to_csv(OFFSETS)) == (OFFSETS, [])


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=5, unique=True))
@example(["", " g", "g ", "\u00a0g\u2003", "\r", "a\rb", "a\nb", '"', '"a", ', "\ufeffg", "\x00"])
def test_any_name_of_a_group_survives_a_file(names: list[str]) -> None:
    offsets = sorted(GroupOffset(name, TopicPartition("t", 0), 7) for name in names)

    with TemporaryDirectory() as folder:
        file = Path(folder, "offsets.csv")
        file.write_text(to_csv(offsets), encoding="utf-8", newline="\n")
        text = file.read_bytes().decode("utf-8-sig")

    assert not offsets or from_csv("f", text) == (offsets, [])


def test_a_wrong_line_is_named_and_left_out() -> None:
    text = "g,t,0,1\nh,t,x,1\n i,t, 1 ,2\ng,t,2,1\ng,t,2,3\na\rb,t,0,1\n"

    offsets, problems = from_csv("f", text)

    assert offsets == [
        GroupOffset("g", TopicPartition("t", 0), 1),
        GroupOffset(" i", TopicPartition("t", 1), 2),
    ]
    assert [problem.partition(":")[0] for problem in problems] == ["line 2", "line 5", "line 6"]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "", ["file is empty; expected lines of group,topic,partition,offset"], id="empty"
        ),
        pytest.param(
            "t,0,1\ng,t,x,1\ng,,0,1\n",
            [
                "line 1: 't,0,1' has 3 fields; expected group,topic,partition,offset",
                (
                    "line 2: partition 'x' and offset '1' must be whole numbers, 0 or more, "
                    "that Kafka can hold"
                ),
                "line 3: topic must not be empty",
            ],
            id="all problems at once",
        ),
        pytest.param(
            "g,t,0,-1\n",
            [
                (
                    "line 1: partition '0' and offset '-1' must be whole numbers, 0 or more, that "
                    "Kafka can hold"
                )
            ],
            id="negative",
        ),
        pytest.param(
            "g,t,2147483648,1\ng,t,٣,1\ng,t,0,9223372036854775808\n",
            [
                f"line {line}: partition {partition!r} and offset {offset!r} must be whole "
                "numbers, 0 or more, that Kafka can hold"
                for line, partition, offset in (
                    (1, "2147483648", "1"),
                    (2, "٣", "1"),
                    (3, "0", "9223372036854775808"),
                )
            ],
            id="beyond Kafka's types",
        ),
        pytest.param(
            "g,t,0,1\ng,t,0,2\n",
            ["line 2: duplicate entry for group g, t-0; none of them counts"],
            id="a duplicate",
        ),
    ],
)
def test_a_wrong_file_is_rejected_with_every_problem(text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_csv("f", text)

    assert list(caught.value.problems) == problems
