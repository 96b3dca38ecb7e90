"""A cluster of two brokers, so that a partition can lose its leader while the cluster answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.ports import HOST, free_port


@contextmanager
def two_brokers(folder: Path, settings: BrokerSettings) -> Iterator[tuple[Broker, Broker]]:
    """Broker 1, which is the controller, and broker 2, which may be stopped and started."""
    port, controller, second_port = free_port(), free_port(), free_port()
    first = Broker("1", folder / "1", settings, ports=iter([port, controller]).__next__)
    second_properties = {
        **settings.properties,
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"PLAINTEXT://{HOST}:{second_port}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    second = Broker(
        "2",
        folder / "2",
        replace(settings, properties=second_properties),
        ports=iter([second_port, controller]).__next__,
    )
    second.cluster_id = first.cluster_id
    try:
        first.start()
        second.start()
        yield first, second
    finally:
        second.stop()
        first.stop()


def create_spread_topic(broker: Broker, topic: str) -> None:
    """A topic whose partition 0 is on broker 1 only, and whose partition 1 on broker 2 only."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    replicas: Any = [[1], [2]]  # the type stubs want names of brokers
    new = NewTopic(topic, num_partitions=2, replica_assignment=replicas)
    admin.create_topics([new], operation_timeout=30)[topic].result(30)
