"""Targets that hold records, but have no offset map: where a flow resumes, and when it refuses."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from replication.demo.workload import ProducedRecord, create_topic, plain_records, sending
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.kafka.reader import read_records
from replication.model import NewTopic, TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.stored import record_events
from tests.support.topics import copied, fill, now_ms, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

BROKER_TIMES = {"record.timestamps": "broker"}


def valued(*values: str) -> Iterator[ProducedRecord]:
    """Records without a key, one for each of *values*."""
    return (ProducedRecord(partition=0, key=None, value=value.encode()) for value in values)


def numbers(start: int, end: int) -> list[str]:
    return [f"number {number}" for number in range(start, end)]


def test_without_timestamps_a_later_equal_record_is_not_taken_for_the_last_copied_one(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name, BROKER_TIMES)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, valued(*numbers(0, 100), "same"))
    RunningFlow(spark, tmp_path / "lost", config, "drain").join()
    send_records(source, topic_name, valued(*["same"] * 20, *numbers(100, 120), "same"))

    RunningFlow(spark, tmp_path / "new", config, "drain").join()

    remote = {topic_name: f"A.{topic_name}"}
    reports = compare(source.bootstrap, target.bootstrap, remote, with_timestamps=False)
    assert reports[topic_name].is_equal, str(reports[topic_name])
    assert copied(clusters, topic_name) == 142


def test_without_timestamps_a_sequence_that_repeats_is_refused(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name, BROKER_TIMES)
    create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, valued(*numbers(0, 10) * 11))
    RunningFlow(spark, tmp_path / "lost", config, "drain").join()
    send_records(source, topic_name, valued(*numbers(0, 10) * 4))

    with pytest.raises(GuardError, match="has its last records more than once"):
        RunningFlow(spark, tmp_path / "new", config, "drain").join()

    assert copied(clusters, topic_name) == 110


@pytest.mark.parametrize("state", ["aborted", "open"])
def test_records_of_an_unfinished_transaction_do_not_count_as_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, state: str
) -> None:
    source, target = clusters
    remote = f"A.{topic_name}"
    records = list(islice(plain_records(1, size_bytes=20, now_ms=now_ms()), 20))
    for broker, topic in ((source, topic_name), (target, remote)):
        create_topic(broker.bootstrap, topic, 1)
    send_records(source, topic_name, records)
    config = flow_config(source, target, topic_name)
    with sending(target.bootstrap, transactional_id=topic_name) as sender:
        with sender.transaction():
            for record in records[:10]:
                sender.send(remote, record)
        with sender.transaction(abort=True):
            for record in records[10:15]:
                sender.send(remote, record)
            if state == "open":
                sender.flush()
                RunningFlow(spark, tmp_path, config, "drain").join()
    if state == "aborted":
        RunningFlow(spark, tmp_path, config, "drain").join()

    found = read_records(config.target.consumer, TopicPartition(remote, 0), 0, 99, "read_committed")
    assert [record.value for record in found] == [record.value for record in records]


def test_timestamps_that_the_target_sets_are_not_compared_after_a_crash(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    on_append = (("message.timestamp.type", "LogAppendTime"),)
    with Cluster("B", {"bootstrap.servers": target.bootstrap}) as cluster:
        cluster.create_topics([NewTopic(f"A.{topic_name}", 1, 1, on_append)])
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path / "crashed", config, "drain").join()
    send(source, topic_name, 1, 50)
    # written beyond the offset map of the other, as by a batch that was cut
    RunningFlow(spark, tmp_path / "other", config, "drain").join()

    flow = RunningFlow(spark, tmp_path / "crashed", config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == 150
    assert record_events(flow.tables) == []
