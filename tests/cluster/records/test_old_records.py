"""Whoever restarts a broker of the target is warned while it would forget the mirror's producer."""

import logging
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import create_topic, plain_records, send_transactions
from replication.kafka.jvm import java_map
from replication.spark.session import jvm_of
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.topics import copied, now_ms, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

RECORDS = 20
DAY_MS = 86_400_000


def send(broker: Broker, topic: str, *, age_ms: int) -> None:
    records = plain_records(1, size_bytes=50, now_ms=now_ms() - age_ms)
    send_records(broker, topic, islice(records, RECORDS))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [line for line in caplog.messages if "event=old_records" in line]
    caplog.clear()
    return found


def test_records_that_are_older_than_a_broker_remembers_are_named_once(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    for suffix, age_ms in {"young": 0, "old": DAY_MS}.items():
        create_topic(source.bootstrap, f"{topic_name}-{suffix}", 1, {"retention.ms": "-1"})
        send(source, f"{topic_name}-{suffix}", age_ms=age_ms)
    config = flow_config(source, target, f"{topic_name}-.*")

    with caplog.at_level(logging.WARNING):
        RunningFlow(spark, tmp_path, config, "drain").join()
        (said,) = warnings(caplog)
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert warnings(caplog) == []  # all are copied
    assert "1 of 2 partitions have records to copy that are older than 24 h" in said
    assert f"{topic_name}-old-0 up to offset {RECORDS}" in said
    assert "producer.id.expiration.ms=86400000" in said


def test_records_with_the_brokers_time_are_young(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, f"{topic_name}-copied", 1, {"retention.ms": "-1"})
    send(source, f"{topic_name}-copied", age_ms=DAY_MS)
    create_topic(
        target.bootstrap, f"A.{topic_name}-copied", 1, {"message.timestamp.type": "LogAppendTime"}
    )
    config = flow_config(source, target, f"{topic_name}-.*")

    with caplog.at_level(logging.WARNING):
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert warnings(caplog) == []


def test_offsets_without_a_record_and_records_without_a_time_are_not_old(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    gone, untimed = f"{topic_name}-gone", f"{topic_name}-untimed"
    for topic in (gone, untimed):
        create_topic(source.bootstrap, topic, 1, {"retention.ms": "-1"})
        create_topic(target.bootstrap, f"A.{topic}", 1, {"retention.ms": str(7 * DAY_MS)})
    month_ago = list(islice(plain_records(1, size_bytes=50, now_ms=now_ms() - 30 * DAY_MS), 20))
    send_transactions(source.bootstrap, gone, month_ago, records_each=20, abort_every=1)
    send_records(source, untimed, [replace(record, timestamp_ms=-1) for record in month_ago])
    for topic in (gone, untimed):
        send(source, topic, age_ms=0)
    config = flow_config(source, target, f"{topic_name}-.*")

    with caplog.at_level(logging.WARNING):
        RunningFlow(spark, tmp_path, config, "drain").join()

    assert warnings(caplog) == []
    assert (copied(clusters, gone), copied(clusters, untimed)) == (RECORDS, 2 * RECORDS)


@pytest.mark.soak
def test_a_broker_that_restarts_has_forgotten_who_sent_old_records(
    spark: SparkSession, own_broker: Broker, topic_name: str
) -> None:
    ages = {"young": 0, "old": DAY_MS}
    for name, age_ms in ages.items():
        create_topic(own_broker.bootstrap, f"{topic_name}-{name}", 1, {"retention.ms": "-1"})
        send(own_broker, f"{topic_name}-{name}", age_ms=age_ms)
    known = {name: producers(spark, own_broker, f"{topic_name}-{name}") for name in ages}

    own_broker.restart()

    assert known == {"young": 1, "old": 1}
    known = {name: producers(spark, own_broker, f"{topic_name}-{name}") for name in ages}
    assert known == {"young": 1, "old": 0}


def producers(spark: SparkSession, broker: Broker, topic: str) -> int:
    """The producers that the broker remembers for the topic's partition."""
    jvm = jvm_of(spark)
    settings = java_map(jvm, {"bootstrap.servers": broker.bootstrap})
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        partition = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        asked = admin.describeProducers(jvm.java.util.List.of(partition))
        return int(asked.partitionResult(partition).get().activeProducers().size())
    finally:
        admin.close()
