"""A cluster of two brokers, so that a partition can lose its leader while the cluster answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port
from tests.support.topics import await_topic

kafka: Any = confluent_kafka  # the type stubs lack elections of leaders


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
    _create_topic(broker, topic, [[1], [2]])


def create_movable_topic(broker: Broker, topic: str) -> None:
    """A topic of one partition that both brokers have, and that broker 2 leads if it can."""
    _create_topic(broker, topic, [[2, 1]])


def keep_groups_on(broker: Broker, number: int) -> None:
    """Lets the broker *number* coordinate all groups, leases too; before there is any."""
    _create_topic(broker, "__consumer_offsets", [[number]] * 4)


def could_elect_preferred_leader(broker: Broker, topic: str) -> bool:
    """Makes the first replica of partition 0 lead it; false if it cannot, or did already."""
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = TopicPartition(topic, 0)
    preferred = kafka.ElectionType.PREFERRED
    answers = admin.elect_leaders(preferred, [partition]).result(30)
    return answers[partition] is None


def _create_topic(broker: Broker, topic: str, brokers: list[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    replicas: Any = brokers  # the type stubs want names of brokers
    new = NewTopic(topic, num_partitions=len(brokers), replica_assignment=replicas)
    admin.create_topics([new], operation_timeout=30)[topic].result(30)
    await_topic(broker, topic, len(brokers))
