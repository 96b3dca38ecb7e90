"""Topics on real clusters: fill them, compare them with their copies, delete them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from replication.demo.compare import compare
from replication.demo.topic_log import log_ends
from replication.demo.workload import (
    ProducedRecord,
    create_topic,
    difficult_records,
    plain_records,
    sending,
)
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from tests.support.local import Addressed
from tests.support.waiting import wait_until

Stream = Callable[[int], Iterator[ProducedRecord]]
"""An endless stream of records for so many partitions, in turn."""


def now_ms() -> int:
    """The current time, as Kafka's timestamps have it."""
    return time.time_ns() // 1_000_000


def plain(partitions: int) -> Iterator[ProducedRecord]:
    """Small records with a key and a value."""
    return plain_records(partitions, size_bytes=20, now_ms=now_ms())


def difficult(partitions: int) -> Iterator[ProducedRecord]:
    """Records of every kind that a replicator must preserve."""
    return difficult_records(partitions, now_ms=now_ms())


def fill(
    broker: Addressed, topic: str, partitions: int, count: int, stream: Stream = plain
) -> None:
    """Creates *topic* and sends *count* records to it."""
    create_topic(broker.bootstrap, topic, partitions)
    send(broker, topic, partitions, count, stream)


def send(
    broker: Addressed, topic: str, partitions: int, count: int, stream: Stream = plain
) -> None:
    """Sends *count* records to the partitions of *topic* in turn."""
    send_records(broker, topic, islice(stream(partitions), count))


def send_records(broker: Addressed, topic: str, records: Iterable[ProducedRecord]) -> None:
    """Sends exactly these records."""
    with sending(broker.bootstrap) as sender:
        sender.send_all(topic, records)


def await_markers(broker: Addressed, tp: TopicPartition) -> None:
    """Waits until no transaction is open in *tp*: a commit returns before its marker is there."""
    with Cluster("any", {"bootstrap.servers": broker.bootstrap}) as cluster:
        wait_until(lambda: cluster.log_ends([tp], "read_committed") == cluster.log_ends([tp]), 60)


def copied(clusters: tuple[Addressed, Addressed], topic: str) -> int:
    """The number of records in the log of the remote topic ``A.topic``."""
    return log_ends(clusters[1].bootstrap, [f"A.{topic}"])[f"A.{topic}"]


def assert_equal(clusters: tuple[Addressed, Addressed], *topics: str) -> None:
    """Asserts that each remote topic ``A.topic`` holds the records of its topic, and no others."""
    assert_copies(clusters, {topic: f"A.{topic}" for topic in topics})


def assert_copies(clusters: tuple[Addressed, Addressed], remote: Mapping[str, str]) -> None:
    """Asserts that the topics of *remote* hold the records of those they are named for."""
    source, target = clusters
    for report in compare(source.bootstrap, target.bootstrap, remote).values():
        assert report.is_equal, str(report)


def await_topic(cluster: Addressed, topic: str, partitions: int) -> None:
    """Waits until each broker lists *topic* with so many partitions: each hears of it by itself."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    brokers = admin.list_topics(timeout=30).brokers.values()
    servers = [f"{broker.host}:{broker.port}" for broker in brokers]
    wait_until(lambda: all(listed_partitions(own, topic) == partitions for own in servers), 60)


def listed_partitions(server: str, topic: str) -> int:
    """How many partitions of *topic* the broker at *server* lists; 0 if it does not know it."""
    asked = AdminClient({"bootstrap.servers": server, "log_level": 0})  # one that knows no other
    return len(asked.list_topics(topic, 30).topics[topic].partitions)


def delete_topic(broker: Addressed, topic: str) -> None:
    """Deletes *topic*; returns when the broker has it no more, though perhaps one of its name.

    The controller answers first, and until the broker hears of it, records would go to the old one.
    """
    with Cluster("any", {"bootstrap.servers": broker.bootstrap}) as cluster:
        old = cluster.describe([topic])[topic].topic_id
        cluster.delete_topic(topic)

        def is_gone() -> bool:
            found = cluster.describe([topic])
            return topic not in found or found[topic].topic_id != old

        wait_until(is_gone, 60)


def delete_records(broker: Addressed, topic: str, before: int, partition: int = 0) -> None:
    """Deletes the records of a partition before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    limit = KafkaTopicPartition(topic, partition, before)
    admin.delete_records([limit])[limit].result(30)
