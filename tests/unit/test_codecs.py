"""Which codec the copies of a topic have, and how a plan is split by codecs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.model import TopicPartition
from replication.topics.topic_plan import TopicPlan, codecs_of_copies

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize(
    ("newest", "known", "expected"),
    [
        pytest.param({"t": ["zstd"]}, {}, "zstd", id="the batches say it"),
        pytest.param({"t": ["zstd", "none"]}, {}, "zstd", id="mixed: the newest"),
        pytest.param({"t": ["zstd", "lz4"]}, {"t": "lz4"}, "lz4", id="mixed: what it is already"),
        pytest.param({"t": ["zstd"]}, {"t": "lz4"}, "zstd", id="changed"),
        pytest.param({}, {"t": "lz4"}, "lz4", id="no answer: as before"),
        pytest.param({}, {}, "gzip", id="no batch yet: the producer's"),
    ],
)
def test_the_newest_batches_decide(
    newest: Mapping[str, Sequence[str]], known: Mapping[str, str], expected: str
) -> None:
    assert codecs_of_copies(["t"], newest, known, "gzip") == {"t": expected}


def plan_of(codecs: Mapping[str, str]) -> TopicPlan:
    return TopicPlan(
        topics={name: f"A.{name}" for name in codecs},
        create=(),
        grow={},
        partitions=tuple(TopicPartition(name, 0) for name in sorted(codecs)),
        source_ids=dict.fromkeys(codecs, "id"),
        remote_ids={f"A.{name}": "id" for name in codecs},
        codecs=codecs,
    )


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(CODECS), min_size=1),
    st.none() | st.integers(1, 6),
)
def test_each_part_has_one_codec_and_each_topic_is_in_one_part(
    codecs: dict[str, str], most: int | None
) -> None:
    parts = plan_of(codecs).by_codec(most)

    assert sorted(tp for part in parts for tp in part.partitions) == [
        TopicPartition(name, 0) for name in sorted(codecs)
    ]
    assert all(len(set(part.codecs.values())) == 1 for part in parts)
    assert len(parts) == min(len(set(codecs.values())), most or 5)
    found = {name: codec for part in parts for name, codec in part.codecs.items()}
    wrong = {name for name in codecs if found[name] != codecs[name]}
    assert not wrong or len(set(codecs.values())) > (most or 5)


def test_a_plan_without_codecs_is_one_part() -> None:
    plan = replace(plan_of({"t": "zstd"}), codecs={})

    assert plan.by_codec() == [plan]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(None, ["ab", "d", "c"]), (3, ["ab", "d", "c"]), (2, ["abc", "d"]), (1, ["abcd"])],
)
def test_topics_apart_have_a_part_of_their_own_while_there_is_room(
    most: int | None, expected: list[str]
) -> None:
    plan = plan_of({"a": "zstd", "b": "zstd", "c": "zstd", "d": "lz4"})

    parts = plan.by_codec(most, apart="c")
    assert ["".join(part.topics) for part in parts] == expected


def test_another_codec_is_another_plan_and_no_addition() -> None:
    plan, other = plan_of({"t": "zstd"}), plan_of({"t": "lz4", "u": "lz4"})
    more = plan_of({"t": "zstd", "u": "lz4"})

    assert plan.fingerprint != other.fingerprint
    assert other.beyond(plan) is None
    added = more.beyond(plan)
    assert added is not None
    assert added.codecs == {"u": "lz4"}
