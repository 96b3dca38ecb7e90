"""How a record changes between Spark's Kafka source and Spark's Kafka sink."""

from datetime import datetime, timezone

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from replication.model import PROVENANCE, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.copies import copies_of
from replication.spark.kafka_options import CARRIER
from replication.spark.progress import (
    SOURCE_SCHEMA,
    TARGET_SCHEMA,
    counts_column,
    counts_of,
    to_target,
)

pytestmark = pytest.mark.spark

NOT_UTF8 = bytearray(b"\xff\x00")
AT = datetime(2001, 2, 3, 4, 5, 6, 789000, tzinfo=timezone.utc)
AT_ORIGIN = CARRIER + (981173106789).to_bytes(8, "big") + (7).to_bytes(8, "big")
NO_TIME_NO_KEY = CARRIER + b"\xff" * 8 + (~8).to_bytes(8, "big", signed=True)
NO_TIME_EMPTY_KEY = CARRIER + b"\xff" * 8 + (9).to_bytes(8, "big")
NO_KEY_AT_ZERO = CARRIER + b"\xff" * 8 + (~0).to_bytes(8, "big", signed=True)
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=timezone.utc)


def test_a_record_is_copied_byte_for_byte_with_its_timestamp_and_offset_before_the_key(
    spark: SparkSession,
) -> None:
    twice = [("a", NOT_UTF8), ("a", None)]
    source = spark.createDataFrame(
        [
            (NOT_UTF8, None, "orders", 3, 7, AT, 0, twice),
            (None, bytearray(b""), "orders", 0, 8, BEFORE_1970, -1, None),
            (bytearray(b""), None, "orders", 0, 9, BEFORE_1970, -1, []),
            (None, None, "orders", 1, 0, BEFORE_1970, -1, []),
        ],
        SOURCE_SCHEMA,
    )
    expected = spark.createDataFrame(
        [
            (bytearray(AT_ORIGIN) + NOT_UTF8, None, twice, "us.orders", 3),
            (bytearray(NO_TIME_NO_KEY), bytearray(b""), None, "us.orders", 0),
            (bytearray(NO_TIME_EMPTY_KEY), None, [], "us.orders", 0),
            (bytearray(NO_KEY_AT_ZERO), None, [], "us.orders", 1),
        ],
        TARGET_SCHEMA,
    )

    assert_df_equality(
        to_target(source, {"orders": "us.orders"}, CopyRule(), intercepted=True),
        expected,
        ignore_nullable=True,
    )


def test_the_provenance_comes_after_the_headers(spark: SparkSession) -> None:
    own: list[tuple[str, bytearray | None]] = [("b", NOT_UTF8), ("a", None)]
    hop = (PROVENANCE, bytearray(b"us"))
    of_records = (own, [*own, hop], None)
    rows = [(None, None, "orders", 0, 7, AT, 0, headers) for headers in of_records]
    source = spark.createDataFrame(rows, SOURCE_SCHEMA)

    marked = to_target(source, {"orders": "orders"}, CopyRule(mark="eu"), intercepted=True)
    bare = to_target(source, {"orders": "orders"}, CopyRule("broker", mark="eu"), intercepted=False)

    added = (PROVENANCE, bytearray(b"eu"))
    expected = [[*own, added], [*own, hop, added], [added]]
    assert [row.headers for row in marked.collect()] == expected
    assert [row.headers for row in bare.collect()] == expected


def test_records_that_have_passed_through_a_cluster_are_left_out(spark: SparkSession) -> None:
    headers: list[list[tuple[str, bytearray | None]] | None] = [
        None,
        [],
        [(PROVENANCE, bytearray(b"eu"))],
        [(PROVENANCE, bytearray(b"us")), ("a", None)],
        [(PROVENANCE, bytearray(b"eu")), (PROVENANCE, bytearray(b"us"))],
        [(PROVENANCE, None)],
        [("us", bytearray(b"us"))],
        [(PROVENANCE, bytearray(b"us-west"))],
    ]
    rows = [(None, None, "t", 0, at, AT, 0, own) for at, own in enumerate(headers)]
    source = spark.createDataFrame(rows, SOURCE_SCHEMA)

    left = copies_of(source, CopyRule(not_to="us")).collect()

    assert [row.offset for row in left] == [0, 1, 2, 5, 6, 7]


def test_without_the_interceptor_the_key_is_untouched(spark: SparkSession) -> None:
    source = spark.createDataFrame([(NOT_UTF8, None, "orders", 0, 7, AT, 0, None)], SOURCE_SCHEMA)
    expected = spark.createDataFrame([(NOT_UTF8, None, None, "us.orders", 0)], TARGET_SCHEMA)

    assert_df_equality(
        to_target(source, {"orders": "us.orders"}, CopyRule("broker"), intercepted=False),
        expected,
        ignore_nullable=True,
    )


@pytest.mark.parametrize(
    "remote",
    [
        pytest.param({"a": "us.a", "heartbeats": "us.heartbeats"}, id="all with a prefix"),
        pytest.param({"a": "a", "b": "b"}, id="all unchanged"),
        pytest.param({"a": "a", "b": "b", "heartbeats": "us.heartbeats"}, id="identity"),
        pytest.param({"a": "a-of-us", "b": "b-of-us"}, id="a text behind"),
        pytest.param({"ab": "x.ab.y", "b": "z", "c": "c", "d": "q"}, id="whatever a policy says"),
        pytest.param({"a": "z"}, id="another name only"),
    ],
)
def test_topics_get_their_remote_names(spark: SparkSession, remote: dict[str, str]) -> None:
    rows = [(None, None, topic, 0, 0, AT, 0, None) for topic in remote]
    source = spark.createDataFrame(rows, SOURCE_SCHEMA)

    renamed = (
        to_target(source, remote, CopyRule("broker"), intercepted=False).select("topic").collect()
    )

    assert [row.topic for row in renamed] == list(remote.values())


@pytest.mark.parametrize(
    "topics",
    [
        pytest.param(["a"], id="one topic"),
        pytest.param(["a", "b", "naïve"], id="topics with CRCs of their own"),
        pytest.param(["plumless", "a", "buckeroo"], id="topics with the same CRC"),
    ],
)
def test_records_are_counted_by_topic_and_partition(spark: SparkSession, topics: list[str]) -> None:
    partitions = [TopicPartition(topic, partition) for topic in topics for partition in range(40)]
    expected = {tp: 1 + index for index, tp in enumerate(partitions) if index % 3}
    rows = [(None, None, *tp, 0, AT, 0, None) for tp, n in expected.items() for _ in range(n)]
    source = spark.createDataFrame(rows, SOURCE_SCHEMA)

    (observed,) = source.agg(counts_column(partitions)).collect()

    assert counts_of(observed[0], partitions) == expected


def test_where_every_partition_has_records_none_is_counted_for_its_neighbour(
    spark: SparkSession,
) -> None:
    partitions = [TopicPartition("a", partition) for partition in range(7)]
    expected = {tp: 1 + index for index, tp in enumerate(partitions)}
    rows = [(None, None, *tp, 0, AT, 0, None) for tp, n in expected.items() for _ in range(n)]

    (observed,) = (
        spark.createDataFrame(rows, SOURCE_SCHEMA).agg(counts_column(partitions)).collect()
    )

    assert counts_of(observed[0], partitions) == expected
