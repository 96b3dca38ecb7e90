"""Clients at clusters that change: a deleted topic stays deleted, a moved cluster is found."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running
from replication.demo.topic_log import log_ends
from replication.model import Mode
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.said import SaidLines
from tests.support.topics import assert_copies, copied, delete_topic, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture
def creating(broker_settings: BrokerSettings, tmp_path: Path) -> Iterator[Broker]:
    """A cluster that creates a topic when a client asks for it, which is Kafka's default."""
    properties = {**broker_settings.properties, "auto.create.topics.enable": "true"}
    broker = Broker("A", tmp_path / "A", replace(broker_settings, properties=properties))
    with running(broker):
        yield broker
        broker.kill()  # nobody reads its data again


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_deleted_source_topic_stays_deleted(
    spark: SparkSession,
    clusters: Clusters,
    creating: Broker,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
    said: SaidLines,
) -> None:
    """Its consumers go on asking for it until the flow looks at the topics again."""
    both, kept = (creating, clusters[1]), f"{topic_name}-kept"
    fill(creating, topic_name, 3, 300)
    fill(creating, kept, 1, 10)
    looks = {"refresh.topics.interval.seconds": "8"}
    config = flow_config(creating, clusters[1], f"{topic_name}.*", looks)
    flow = RunningFlow(spark, tmp_path / "state", config, mode)
    flow.until(lambda: copied(both, topic_name) >= 300 and copied(both, kept) >= 10)
    delete_topic(creating, topic_name)
    said.forget()
    flow.until(lambda: said.of("generation_started"))
    send(creating, kept, 1, 10)
    flow.until(lambda: copied(both, kept) >= 20)
    flow.stop()

    admin = AdminClient({"bootstrap.servers": creating.bootstrap})
    assert topic_name not in admin.list_topics(timeout=30).topics
    assert kinds(flow.tables) == []


class MovingBroker(Broker):
    """A broker that starts again at another address."""

    def move(self, port: int) -> None:
        """Ends the broker, and starts it with its data at *port*."""
        self.stop()
        assert self._ports is not None
        self._ports = port, self._ports[1]
        self.start()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_moved_to_another_listed_address_is_found_again(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    side: str,
) -> None:
    ports = [free_port() for _ in range(3)]
    moving = MovingBroker(side, tmp_path / side, broker_settings, ports=iter(ports).__next__)
    source, target = both = (moving, clusters[1]) if side == "source" else (clusters[0], moving)
    flow = unique_flow()
    alias = flow.source if side == "source" else flow.target
    addresses = {f"{alias}.bootstrap.servers": f"{HOST}:{ports[0]},{HOST}:{ports[2]}"}
    remote = f"{flow.source}.{topic_name}"

    def end() -> int:
        return log_ends(target.bootstrap, [remote])[remote]

    with running(moving):
        fill(source, topic_name, 1, 100)
        config = flow_config(source, target, topic_name, addresses, flow)
        running_flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
        running_flow.until(lambda: end() >= 100)

        moving.move(ports[2])
        send(source, topic_name, 1, 10)
        running_flow.until(lambda: end() >= 110, 120)
        running_flow.stop()

        assert_copies(both, {topic_name: remote})
