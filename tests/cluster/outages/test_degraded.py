"""What a running flow cannot do for a while is said, and the flow goes on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.workload import ProducedRecord
from replication.kafka.cluster import Cluster
from replication.kafka.internal_topic import InternalTopic
from replication.upkeep.checkpoints import read_checkpoints
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.said import SaidLines
from tests.support.topics import assert_equal, copied, fill, send, send_records

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
