"""Records of more partitions than one consumer reads together are read and compared."""

import time
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import GuardError
from replication.kafka import reader as reading
from replication.kafka.api import KafkaRecord
from replication.kafka.reader import PARTITIONS_AT_ONCE, Reader
from replication.model import Position, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.positions.originals import CountedTail, matching_tails
from replication.positions.place import Existing, Match, match_existing_targets
from replication.spark.gaps import originals
from replication.spark.kafka_options import source_options
from replication.state.tables import Tables
from tests.support.flows import flow_config, flow_context
from tests.support.gate.clock import Limit
from tests.support.local import Clusters
from tests.support.topics import delete_topic, fill, plain, send
from tests.support.waiting import in_time, measured

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PARTITIONS = PARTITIONS_AT_ONCE + 20
EACH = 30
OTHER = PARTITIONS - 3
"""A partition that is compared with a wrong place."""


def fill_both(clusters: Clusters, topic: str) -> None:
    """The same records on both sides; on the source some more."""
    records = list(islice(plain(PARTITIONS), EACH * PARTITIONS))
    for broker, name in zip(clusters, (topic, f"A.{topic}"), strict=True):
        fill(broker, name, PARTITIONS, len(records), lambda _: iter(records))
    send(clusters[0], topic, PARTITIONS, 5 * PARTITIONS)


def test_the_tails_of_many_partitions_are_compared_each_by_itself(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill_both(clusters, topic_name)
    tails = [
        CountedTail(
            TopicPartition(topic_name, number),
            (0, EACH + (number == OTHER)),  # one record too many is counted
            TopicPartition(f"A.{topic_name}", number),
            EACH,
            EACH,
        )
        for number in range(PARTITIONS)
    ]

    context = flow_context(
        spark, Tables(spark, tmp_path.as_uri()), flow_config(*clusters, topic_name)
    )
    matching = matching_tails(context, tails)

    assert matching == {tail.tp for tail in tails if tail.tp.partition != OTHER}


def test_many_partitions_are_found_in_the_target_each_by_itself(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill_both(clusters, topic_name)
    tables = Tables(spark, tmp_path.as_uri())
    context = flow_context(spark, tables, flow_config(*clusters, topic_name))
    existing = {
        TopicPartition(topic_name, number): Existing(
            TopicPartition(f"A.{topic_name}", number), Position(0, EACH)
        )
        for number in range(PARTITIONS)
    }
    elsewhere = TopicPartition(topic_name, OTHER)
    existing[elsewhere] = Existing(TopicPartition(f"A.{topic_name}", OTHER - 1), Position(0, EACH))
    del existing[TopicPartition(topic_name, OTHER - 1)]

    found = match_existing_targets(context, existing)

    assert found.keys() == existing.keys()
    assert isinstance(found.pop(elsewhere), GuardError)
    assert {match.position if isinstance(match, Match) else match for match in found.values()} == {
        Position(EACH, EACH)
    }


def test_one_consumer_reads_the_spans_of_many_partitions(
    clusters: Clusters, topic_name: str
) -> None:
    fill(clusters[0], topic_name, PARTITIONS, 10 * PARTITIONS)
    found: dict[TopicPartition, list[int]] = {}

    def visit(tp: TopicPartition, record: KafkaRecord) -> bool:
        found.setdefault(tp, []).append(record.offset)
        return tp.partition % 2 == 1  # one record is enough

    tps = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
    spans = {tp: (3, 3 if tp.partition == 0 else 6) for tp in tps}
    with Reader({"bootstrap.servers": clusters[0].bootstrap}, "read_committed") as reader:
        reader.visit(spans, visit)
        first, found = found, {}
        reader.visit({tps[1]: (0, 10)}, lambda tp, record: not visit(tp, record))

    assert first == {tp: [3] if tp.partition % 2 else [3, 4, 5] for tp in tps[1:]}
    assert found == {tps[1]: list(range(10))}


def test_sets_of_other_topics_are_read_one_after_the_other_without_a_pause(
    clusters: Clusters, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's C client looks for leaders that it does not know once a second: this took 19 s."""
    topics = [f"{topic_name}-{number}" for number in range(20)]
    for topic in topics:
        fill(clusters[0], topic, 2, 10)
    spans = {TopicPartition(topic, number): (0, 5) for topic in topics for number in range(2)}
    monkeypatch.setattr(reading, "PARTITIONS_AT_ONCE", 2)
    found: list[TopicPartition] = []

    with (
        Reader({"bootstrap.servers": clusters[0].bootstrap}, "read_committed") as reader,
        in_time(5, "twenty sets"),
    ):
        reader.visit(spans, lambda tp, _: found.append(tp))

    assert sorted(found) == sorted(5 * list(spans))
    for topic in topics:
        delete_topic(clusters[0], topic)


def test_the_fingerprints_of_a_long_span_are_the_same_in_parts(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    properties, tp = {"bootstrap.servers": clusters[0].bootstrap}, TopicPartition(topic_name, 0)

    parts = originals(spark, properties, tp, (5, 100), CopyRule(), at_once=40)

    whole = list(originals(spark, properties, tp, (5, 100), CopyRule()))
    assert [one.offset for one in whole] == list(range(5, 100))
    assert list(parts) == whole


def test_a_read_up_to_the_end_of_partitions_does_not_wait_for_further_records(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    partitions = 16
    fill(clusters[0], topic_name, partitions, partitions)
    starts = {TopicPartition(topic_name, number): 0 for number in range(partitions)}

    def seconds(**settings: str) -> float:
        """Of one task that reads one partition after the other."""
        options = source_options({"bootstrap.servers": clusters[0].bootstrap, **settings}, starts)
        began = time.monotonic()
        assert spark.read.format("kafka").options(**options).load().coalesce(1).count() == 16
        return time.monotonic() - began

    seconds()  # the JVM compiles what it runs
    began = Limit(16)
    waiting = seconds(**{"fetch.max.wait.ms": "500"})  # Kafka's default

    # A busy machine makes one try slow; a reader that waits is slow in each.
    with measured("five reads that do not wait", began):
        assert any(seconds() < waiting / 2 for _ in range(5))
