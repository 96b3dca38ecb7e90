"""``auto.offset.reset=latest`` leaves out what was there before the flow; all else is copied."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import await_topic, copied, fill, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LATEST = {"A.consumer.auto.offset.reset": "latest"}


def grow(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    await_topic(broker, topic, partitions)


def test_what_is_born_after_the_first_start_is_copied_from_its_first_record(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    known, fresh, added = f"{topic_name}-known", f"{topic_name}-fresh", f"{topic_name}-added"

    def drain(topics: str) -> None:
        RunningFlow(spark, tmp_path, flow_config(source, target, topics, LATEST), "drain").join()

    fill(source, known, 1, 10)
    fill(source, added, 1, 10)  # it exists, but the flow excludes it at first
    drain(f"{known},{fresh}")
    send(source, known, 1, 5)
    fill(source, fresh, 1, 7)
    grow(source, known, 2)
    send_records(source, known, [ProducedRecord(partition=1, key=None, value=b"born later")] * 9)
    drain(f"{known},{fresh}")

    assert copied(clusters, known) == 5 + 9
    assert copied(clusters, fresh) == 7
    drain(f"{topic_name}.*")
    send(source, added, 1, 3)
    drain(f"{topic_name}.*")
    assert copied(clusters, added) == 3


def test_a_flow_that_found_no_topic_copies_the_first_one_whole(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name, LATEST)
    first = RunningFlow(spark, tmp_path, config, "microbatch")
    first.until(lambda: stored(first.tables, "first_topics"))
    fill(source, topic_name, 2, 60)

    first.until(lambda: copied(clusters, topic_name) == 60)
    first.stop()
