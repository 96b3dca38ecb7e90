"""The load: a topic filled before a race, and the topics' removal after it."""

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
    """Sends *records* of *size_bytes* (value) round the partitions; all are there on return."""
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
    """A topic's length in records, by one light request a look.

    Args:
        cluster: Its cluster.
        topic: May not exist yet, and is empty then.
        partitions: All it has or will have.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._cluster, self._topic, self._exists = cluster, topic, False
        self._partitions = [TopicPartition(topic, it) for it in range(partitions)]

    def records(self) -> int:
        """What its log ends add up to."""
        self._exists = self._exists or bool(self._cluster.describe([self._topic]))
        return sum(self._cluster.log_ends(self._partitions).values()) if self._exists else 0


def delete(bootstrap: str, topic: str) -> None:
    """Deletes a topic, for the space of it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_topics([topic], operation_timeout=TIMEOUT_SECONDS).values():
        deleted.result(TIMEOUT_SECONDS)
