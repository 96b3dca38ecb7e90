"""A cluster of several brokers in racks of their own: leaders move, and any broker may be away."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running
from replication.kafka.jvm import java_map, shared_jvm
from tests.support.topics import await_topic
from tests.support.waiting import wait_until

CONTROLLERS = 3
WHOLE_SECONDS = 90
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@dataclass(frozen=True, slots=True)
class BrokerRacks:
    """Brokers 1, 2, 3 and so on; broker 2 is in ``rack-2``."""

    brokers: Sequence[Broker]

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` with all of them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def create_topic(
        self, topic: str, replicas: list[list[int]], config: Mapping[str, str] | None = None
    ) -> None:
        """Makes a topic whose partitions are on these brokers, the first of which leads."""
        named: Any = replicas  # the type stubs want names of brokers
        new = NewTopic(
            topic,
            num_partitions=len(replicas),
            replica_assignment=named,
            config=dict(config or {}),
        )
        self._admin.create_topics([new], operation_timeout=30)[topic].result(30)
        await_topic(self, topic, len(replicas))
        wait_until(self.is_whole, WHOLE_SECONDS)

    def create_spread_topic(self, topic: str, partitions: int) -> None:
        """Makes a topic that each broker leads as often, with three replicas."""
        count = len(self.brokers)
        self.create_topic(
            topic, [[(first + n) % count + 1 for n in range(3)] for first in range(partitions)]
        )

    def is_whole(self) -> bool:
        """Whether all brokers are there, and all replicas of all topics are in sync."""
        found = self._admin.list_topics(timeout=30)
        return len(found.brokers) == len(self.brokers) and all(
            len(partition.isrs) == len(partition.replicas)
            for topic in found.topics.values()
            for partition in topic.partitions.values()
        )

    def restart(self, broker: Broker) -> None:
        """Restarts one, as an operator does who then awaits that all replicas are in sync."""
        broker.restart()
        wait_until(self.is_whole, WHOLE_SECONDS)

    def move_leaders(self, topic: str) -> None:
        """Makes the second replica of each partition the first one, and lets that lead."""
        wait_until(self.is_whole, WHOLE_SECONDS)  # or it could not be elected
        orders = {
            number: [*partition.replicas[1:], partition.replicas[0]]
            for number, partition in self._described(topic).partitions.items()
        }
        _reassign(self.bootstrap, topic, orders)

        def have_moved() -> bool:
            found = self._described(topic).partitions
            return all(found[number].leader == order[0] for number, order in orders.items())

        wait_until(have_moved, WHOLE_SECONDS)

    def _described(self, topic: str) -> TopicMetadata:
        return self._admin.list_topics(topic, timeout=30).topics[topic]

    @property
    def _admin(self) -> AdminClient:
        return _admin_of(self.bootstrap)


@functools.cache
def _admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _reassign(bootstrap: str, topic: str, orders: dict[int, list[int]]) -> None:
    """Gives partitions another order of their replicas, and elects the first of each."""
    jvm = shared_jvm()
    clients = jvm.org.apache.kafka.clients.admin
    admin = clients.AdminClient.create(java_map(jvm, {"bootstrap.servers": bootstrap}))
    wanted, partitions = jvm.java.util.HashMap(), jvm.java.util.HashSet()
    for number, order in orders.items():
        tp = jvm.org.apache.kafka.common.TopicPartition(topic, number)
        replicas = jvm.java.util.ArrayList()
        for broker in order:
            replicas.add(broker)
        wanted.put(tp, jvm.java.util.Optional.of(clients.NewPartitionReassignment(replicas)))
        partitions.add(tp)
    try:
        admin.alterPartitionReassignments(wanted).all().get()
        preferred = jvm.org.apache.kafka.common.ElectionType.PREFERRED
        admin.electLeaders(preferred, partitions).partitions().get()
    finally:
        admin.close()


def _format(broker: Broker, number: int) -> None:
    """Makes the data folder of a broker that is no controller, without a JVM of Kafka's tool."""
    data = broker.folder / "data"
    data.mkdir(parents=True)
    lines = ("version=1", f"cluster.id={broker.cluster_id}", f"node.id={number}")
    (data / "meta.properties").write_text("\n".join(lines))


@contextmanager
def broker_racks(folder: Path, settings: BrokerSettings, count: int = 3) -> Iterator[BrokerRacks]:
    """A running cluster of so many brokers, the first three of which are controllers as well."""
    ports = [(free_port(), free_port()) for _ in range(count)]
    voters = ",".join(
        f"{number}@{HOST}:{controller}"
        for number, (_, controller) in enumerate(ports[:CONTROLLERS], 1)
    )
    brokers: list[Broker] = []
    for number, (port, controller) in enumerate(ports, 1):
        more = {"node.id": str(number), "broker.rack": f"rack-{number}", **REPLICATED}
        if number > CONTROLLERS:
            more |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{port}"}
        properties = {**settings.properties, **more, "controller.quorum.voters": voters}
        broker = Broker(
            str(number),
            folder / str(number),
            replace(settings, properties=properties),
            ports=iter([port, controller]).__next__,
        )
        broker.cluster_id = brokers[0].cluster_id if brokers else broker.cluster_id
        if number > CONTROLLERS:
            _format(broker, number)
        brokers.append(broker)
    racks = BrokerRacks(brokers)
    with running(*brokers):
        wait_until(racks.is_whole, WHOLE_SECONDS)
        yield racks
        for broker in brokers:
            broker.kill()  # nobody reads their data again
