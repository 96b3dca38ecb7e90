"""The load: fills a topic before a race, and deletes topics after it."""

import os
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient

from replication.demo.workload import ProducedRecord, sending
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition

VALUES = 256
TIMEOUT_SECONDS = 60.0
CONTENT = "keys of 8 bytes, values of random bytes, no headers, no compression"


def fill(bootstrap: str, topic: str, partitions: int, *, records: int, size_bytes: int) -> None:
    """Sends *records* with values of *size_bytes* to the partitions in turn, and flushes."""
    with sending(bootstrap) as sender:
        sender.send_all(topic, _records(partitions, records, size_bytes))


def _records(partitions: int, records: int, size_bytes: int) -> Iterator[ProducedRecord]:
    values = [os.urandom(size_bytes) for _ in range(VALUES)]
    for number in range(records):
        yield ProducedRecord(
            partition=number % partitions,
            key=number.to_bytes(8, "big"),
            value=values[number % VALUES],
        )


class Log:
    """The length of a topic in records, read by one small request at a time.

    Args:
        cluster: The cluster of the topic.
        topic: Counts as empty if it does not exist yet.
        partitions: The number of its partitions.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._cluster, self._topic, self._exists = cluster, topic, False
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def records(self) -> int:
        """The sum of its log end offsets."""
        self._exists = self._exists or bool(self._cluster.describe([self._topic]))
        return sum(self._cluster.log_ends(self._partitions).values()) if self._exists else 0


def delete(bootstrap: str, topic: str) -> None:
    """Deletes a topic to free its disk space."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_topics([topic], operation_timeout=TIMEOUT_SECONDS).values():
        deleted.result(TIMEOUT_SECONDS)
