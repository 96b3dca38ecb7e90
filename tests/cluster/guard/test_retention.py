"""A target keeps what the source keeps, or a warning names it before the first record."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import create_topic, plain_records, sending
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters, Until
from tests.support.topics import copied, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

DAY_MS = 86_400_000
RECORDS = 1000


@pytest.fixture(scope="module")
def strict_target(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that keeps records for 7 days, Kafka's default, and checks that every second."""
    retention = {
        "log.retention.ms": str(7 * DAY_MS),
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "500",
    }
    settings = replace(broker_settings, properties={**broker_settings.properties, **retention})
    broker = Broker("B", tmp_path_factory.mktemp("strict"), settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def test_old_records_outlive_the_default_retention_of_the_target(
    spark: SparkSession,
    clusters: Clusters,
    strict_target: Broker,
    tmp_path: Path,
    topic_name: str,
    until: Until,
) -> None:
    source = clusters[0]
    kept = {"forever": {"retention.ms": "-1"}, "compacted": {"cleanup.policy": "compact"}}
    for suffix, settings in kept.items():
        create_topic(source.bootstrap, f"{topic_name}-{suffix}", 1, settings)
        send_old_records(source, f"{topic_name}-{suffix}")

    config = flow_config(source, strict_target, f"{topic_name}-.*")
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.until(lambda: not flow.is_running, 240)
    flow.join()
    wait_for_retention(strict_target, f"{topic_name}-check", until)

    copies = {suffix: f"A.{topic_name}-{suffix}" for suffix in kept}
    assert {suffix: records_in(strict_target, copy) for suffix, copy in copies.items()} == {
        "forever": RECORDS,
        "compacted": RECORDS,
    }


def test_a_target_that_keeps_less_is_named_before_the_first_record(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1, {"retention.ms": "-1"})
    create_topic(target.bootstrap, f"A.{topic_name}", 1, {"retention.ms": str(7 * DAY_MS)})
    send(source, topic_name, 1, 10)
    config = flow_config(source, target, topic_name, {"sync.topic.configs.enabled": "false"})

    with caplog.at_level(logging.INFO):
        RunningFlow(spark, tmp_path, config, "drain").join()

    (said,) = [n for n, line in enumerate(caplog.messages) if "event=target_keeps_less" in line]
    started = [n for n, line in enumerate(caplog.messages) if "event=generation_started" in line]
    assert "retention.ms=604800000 (-1 on the source)" in caplog.messages[said]
    assert said < started[0]


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        pytest.param({}, 0, id="the topic is set aside"),
        pytest.param({"replication.guard.copies-expired": "skip"}, 10, id="only what it keeps"),
        pytest.param({"replication.guard.copies-expired": "restart"}, 1010, id="all, by policy"),
        pytest.param({"config.properties.exclude": "retention.ms"}, 1010, id="its own retention"),
        pytest.param({"record.timestamps": "broker"}, 1010, id="copies get the present"),
    ],
)
@pytest.mark.guarantee
def test_no_record_is_copied_that_the_target_would_delete_at_once(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    settings: dict[str, str],
    copies: int,
) -> None:
    source, target = clusters
    old, other = f"{topic_name}-old", f"{topic_name}-other"
    for topic in (old, other):
        create_topic(source.bootstrap, topic, 1, {"retention.ms": "-1"})
        create_topic(target.bootstrap, f"A.{topic}", 1, {"retention.ms": str(7 * DAY_MS)})
    send_old_records(source, old)
    for topic in (old, other):
        send(source, topic, 1, 10)
    config = flow_config(source, target, f"{topic_name}-.*", settings)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    if copies:
        flow.join()
    else:
        kept = f"A.{old} on B keeps records for {7 * DAY_MS} ms only .without limit on the source"
        with pytest.raises(GuardError, match=rf"{kept}.*source offsets 0 to {RECORDS - 1}"):
            flow.join()

    # by the log's end: every five minutes the target deletes what it does not keep
    assert [copied(clusters, topic) for topic in (old, other)] == [copies, 10]


def send_old_records(broker: Broker, topic: str) -> None:
    month_ago = time.time_ns() // 1_000_000 - 30 * DAY_MS
    with sending(broker.bootstrap) as sender:
        records = plain_records(1, size_bytes=50, now_ms=month_ago)
        sender.send_all(topic, islice(records, RECORDS))


def wait_for_retention(broker: Broker, topic: str, until: Until) -> None:
    """Returns after a whole pass over the broker's logs: old records of *topic* vanish twice."""
    create_topic(broker.bootstrap, topic, 1)
    for _ in range(2):
        send_old_records(broker, topic)
        until(lambda: records_in(broker, topic) == 0, 30)


def records_in(broker: Broker, topic: str) -> int:
    """The number of offsets that partition 0 of *topic* still holds."""
    partition = TopicPartition(topic, 0)
    with Cluster("any", {"bootstrap.servers": broker.bootstrap}) as cluster:
        return cluster.log_ends([partition])[partition] - cluster.earliest([partition])[partition]
