"""The load: fills a topic before a race, and deletes topics after it."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from confluent_kafka.admin import AdminClient

from replication.demo.workload import Headers, ProducedRecord, create_topic, sending
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import RETRIABLE, CallError
from replication.model import TopicPartition

Compression = Literal["none", "lz4", "zstd"]

COMPRESSIONS: Final[tuple[Compression, ...]] = get_args(Compression)
# No multiple of a number of partitions, so that each partition gets all values in turn: a batch
# never holds the same value twice, which would compress better than any user's records.
VALUES: Final = 2039
TIMEOUT_SECONDS: Final = 60.0
CONTENT: Final = "keys of 8 bytes, values of random hexadecimal digits"
HEADERS: Final[Headers] = (
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("content-type", b"application/json"),
    ("schema", b"orders-value-7"),
)
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a topic is filled with.

    Args:
        partitions: Of the topic; each gets as many records.
        records: Their number.
        size_bytes: Of a value.
        has_headers: Whether each record has the three of ``HEADERS``, 93 bytes.
        compression: Of the topic's batches on the source.
        span_seconds: The timestamps spread evenly over so many seconds until now.
    """

    partitions: int
    records: int
    size_bytes: int
    has_headers: bool = False
    compression: Compression = "none"
    span_seconds: float = 0.0

    def fill(self, bootstrap: str, topic: str) -> None:
        """Creates *topic* and sends all records."""
        # The broker compresses as the topic says, so that the producer need not.
        config = {} if self.compression == "none" else {"compression.type": self.compression}
        create_topic(bootstrap, topic, self.partitions, config)
        with sending(bootstrap) as sender:
            sender.send_all(topic, self.backlog())

    def backlog(self) -> Iterator[ProducedRecord]:
        """Yields all records, partition by partition; the timestamps of each span the same time.

        A request of librdkafka has records of one partition, and for each request it walks over
        all partitions: 9 ms if there are 5000. In turn, records would wait for a request for every
        partition, and time out.
        """
        values = [os.urandom(self.size_bytes).hex()[: self.size_bytes] for _ in range(VALUES)]
        encoded = [value.encode() for value in values]
        headers = HEADERS if self.has_headers else ()
        step_ms = self.span_seconds * 1000 / self.records
        first_ms = time.time_ns() // 1_000_000 - self.span_seconds * 1000
        for partition in range(self.partitions):
            for number in range(partition, self.records, self.partitions):
                yield ProducedRecord(
                    partition=partition,
                    key=number.to_bytes(8, "big"),
                    value=encoded[number % VALUES],
                    headers=headers,
                    timestamp_ms=int(first_ms + number * step_ms) if step_ms else 0,
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
        self._records = 0

    def records(self) -> int:
        """The sum of its log end offsets; the last one while a partition has no leader yet.

        A broker that is given 5000 new partitions takes longer to lead them than a call may last.
        """
        try:
            self._exists = self._exists or bool(self._cluster.describe([self._topic]))
            if self._exists:
                self._records = sum(self._cluster.log_ends(self._partitions).values())
        except CallError as error:
            if error.code not in RETRIABLE:
                raise
        return self._records


def into_page_cache(data: Path, topic: str) -> None:
    """Reads the files of *topic* in a broker's folder, and lets the kernel write what waits.

    Every contender then finds the same page cache, whatever ran before it.
    """
    for file in sorted(data.glob(f"{topic}-*/*.log")):
        with file.open("rb", buffering=0) as log:
            while log.read(READ_BYTES):
                pass
    os.sync()


def delete(bootstrap: str, *topics: str) -> None:
    """Deletes topics to free their disk space."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_topics([*topics], operation_timeout=TIMEOUT_SECONDS).values():
        deleted.result(TIMEOUT_SECONDS)
