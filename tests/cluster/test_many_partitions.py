"""What a start does for more partitions than one consumer reads together."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.kafka.reader import PARTITIONS_AT_ONCE, KafkaRecord, Reader
from replication.model import TopicPartition
from replication.spark.counting import fingerprints
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.topics import assert_equal, copied, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PARTITIONS = PARTITIONS_AT_ONCE + 20


def test_each_of_many_partitions_is_found_in_the_target_in_one_commit(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    config = flow_config(*clusters, topic_name)
    fill(clusters[0], topic_name, PARTITIONS, 10 * PARTITIONS)
    RunningFlow(spark, tmp_path / "old", config, "drain").join()
    send(clusters[0], topic_name, PARTITIONS, 3 * PARTITIONS)

    new = RunningFlow(spark, tmp_path / "new", config, "drain")  # has no offset map
    new.join()
    send(clusters[0], topic_name, PARTITIONS, 2 * PARTITIONS)
    old = RunningFlow(spark, tmp_path / "old", config, "drain")  # does not know what new has copied
    old.join()

    assert copied(clusters, topic_name) == 15 * PARTITIONS
    assert_equal(clusters, topic_name)
    events = new.tables.of("events", FLOW).collect()
    assert [event.kind for event in events] == ["adopted"] * PARTITIONS
    assert {event.partition for event in events} == set(range(PARTITIONS))
    table = new.tables.path("events")
    assert spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count() == 1
    assert old.tables.of("events", FLOW).collect() == []


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


def test_the_fingerprints_of_a_long_span_are_the_same_in_parts(
    spark: SparkSession, clusters: Clusters, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    properties, tp = {"bootstrap.servers": clusters[0].bootstrap}, TopicPartition(topic_name, 0)

    parts = fingerprints(spark, properties, tp, (5, 100), "preserve", at_once=40)

    whole = list(fingerprints(spark, properties, tp, (5, 100), "preserve"))
    assert [offset for offset, _ in whole] == list(range(5, 100))
    assert list(parts) == whole
