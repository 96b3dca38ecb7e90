"""What a running flow cannot do for a while is said, and the flow goes on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import ProducedRecord, create_topic
from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.upkeep.groups import read_checkpoints
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters, Until
from tests.support.said import SaidLines
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_equal, copied, fill, send, send_records
from tests.support.two_brokers import create_movable_topic, keep_groups_on, two_brokers

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_idle_partitions_are_looked_at_again_when_the_source_answers(
    spark: SparkSession,
    clusters: Clusters,
    own_broker: Broker,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
) -> None:
    both = (own_broker, clusters[1])
    fill(own_broker, topic_name, 1, 100)
    settings = {"A.admin.default.api.timeout.ms": "2000", "refresh.topics.enabled": "false"}
    config = flow_config(*both, topic_name, settings)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    flow.until(lambda: copied(both, topic_name) >= 100)

    own_broker.stop()
    flow.until(lambda: said.of("idle_check_failed"))
    own_broker.start()
    send(own_broker, topic_name, 1, 10)
    flow.until(lambda: copied(both, topic_name) >= 110)
    flow.stop()

    assert {line.flow for line in said.of("idle_check_failed")} == {"A->B"}
    assert_equal(both, topic_name)


def test_each_remote_topic_that_takes_no_records_is_said_once(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    until: Until,
    said: SaidLines,
) -> None:
    """The second topic comes while the flow runs."""
    source, other, added = clusters[0], f"{topic_name}-other", f"{topic_name}-added"
    remotes = [f"A.{topic}" for topic in (topic_name, added)]
    for topic in (topic_name, other):
        create_topic(source.bootstrap, topic, 1)
    with two_brokers(tmp_path / "brokers", broker_settings) as (first, second):
        keep_groups_on(first, 1)
        for remote in remotes:
            create_movable_topic(first, remote)
            alter_topic(first, remote, "min.insync.replicas", "2")
        second.stop()
        with Cluster("B", {"bootstrap.servers": first.bootstrap}) as target:
            until(
                lambda: all(
                    topic.in_sync == ((1, 2),) for topic in target.describe(remotes).values()
                ),
                60,
            )
        config = flow_config(source, first, f"{topic_name}.*")
        flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
        flow.until(lambda: said.of("target_takes_nothing"))

        create_topic(source.bootstrap, added, 1)
        flow.until(lambda: len(said.of("target_takes_nothing")) > 1)
        assert len(said.of("generation_started")) == 2, "one more, beside the first"
        with Cluster("A", {"bootstrap.servers": source.bootstrap}) as cluster:
            cluster.delete_topic(other)
        flow.until(lambda: len(said.of("generation_started")) > 2)
        flow.stop()

    lines = said.of("target_takes_nothing")
    assert len(lines) == 2
    for remote, line in zip(remotes, lines, strict=True):
        start = f"topic {remote} on B takes no records: min.insync.replicas=2"
        assert line.text.startswith(start)


def test_a_record_that_is_no_checkpoint_is_passed_over(
    clusters: Clusters, topic_name: str, said: SaidLines
) -> None:
    target = clusters[1]
    servers = {"bootstrap.servers": target.bootstrap}
    with Cluster("B", servers) as cluster:
        topic = InternalTopic(
            cluster, topic_name, producer=servers, consumer=servers, replication_factor=1
        )
        topic.create()
        send_records(target, topic_name, [ProducedRecord(partition=0, key=b"k", value=b"odd")])

        assert read_checkpoints(topic) == {}

    (line,) = said.of("not_a_checkpoint")
    assert line.fields == {"topic": topic_name, "offset": 0}
