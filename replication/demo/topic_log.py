"""Reads the log of a topic from its start to its current end, partition by partition, in order.

It shares no code with the product's reader, so that the demo and the tests judge independently.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from replication.errors import ClusterError
from replication.model import Isolation

Headers = tuple[tuple[str, bytes | None], ...]

BATCH_RECORDS = 10_000
PATIENCE_SECONDS = 30.0
# A new partition, or one whose broker is starting, has no leader yet; a new leader has no end yet.
# A broker that has just started may not know yet the partition that another one has named.
NO_LEADER_YET = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - the client's own error, which has no other name
)


class Content(NamedTuple):
    """What must be equal on both sides. None is null, which differs from empty bytes."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Record(NamedTuple):
    """A record and its offset."""

    offset: int
    content: Content


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The log of one topic on one cluster."""

    bootstrap: str
    topic: str
    isolation: Isolation
    patience_seconds: float = PATIENCE_SECONDS

    def partitions(self) -> set[int]:
        """Returns the topic's partitions; none if the topic does not exist."""
        with closing(_consumer(self.bootstrap, self.isolation)) as consumer:
            try:
                metadata = consumer.list_topics(self.topic, timeout=self.patience_seconds)
            except KafkaException as error:
                raise self._failure(f"cannot be listed: {error}") from error
            return set(metadata.topics[self.topic].partitions)

    def records(self, partition: int) -> Iterator[Record]:
        """Yields the records of one partition, in order."""
        with closing(_consumer(self.bootstrap, self.isolation)) as consumer:
            try:
                low, end = offset_range(consumer, self.topic, partition, self.patience_seconds)
                if low >= end:
                    return
                consumer.assign([TopicPartition(self.topic, partition, low)])
                yield from self._until(consumer, partition, end)
            except KafkaException as error:
                text = f"partition {partition} cannot be read: {error}"
                raise self._failure(text) from error

    def _until(self, consumer: Consumer, partition: int, end: int) -> Iterator[Record]:
        at, deadline = -1, time.monotonic() + self.patience_seconds
        while time.monotonic() < deadline:
            # consume() waits for the full number of records, or for the whole timeout.
            for message in consumer.consume(min(BATCH_RECORDS, end), timeout=0.1):
                at, error = message.offset() or 0, message.error()
                if error is None and at < end:
                    yield Record(at, _content(message))
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                # The end-of-partition event matters where a log ends in transaction markers.
                if at >= end - (error is None):
                    return
                # Extended with each record, because the caller may be slow.
                deadline = time.monotonic() + self.patience_seconds
        raise self._failure(f"partition {partition} does not advance from offset {at} of {end}")

    def _failure(self, text: str) -> ClusterError:
        return ClusterError(
            f"comparing topic {self.topic!r} on {self.bootstrap}: {text}; "
            "check that the cluster answers and the topic still exists"
        )


def _content(message: Message) -> Content:
    _, timestamp_ms = message.timestamp()
    headers = tuple(message.headers() or ())
    return Content(message.key(), message.value(), headers, timestamp_ms)


def log_ends(bootstrap: str, topics: Iterable[str]) -> dict[str, int]:
    """Returns the sum of each topic's log end offsets; 0 for one that does not exist (yet)."""
    ends = dict.fromkeys(topics, 0)
    with closing(_consumer(bootstrap, "read_uncommitted")) as consumer:
        try:
            known = consumer.list_topics(timeout=PATIENCE_SECONDS).topics
            for topic in ends.keys() & known.keys():
                for partition in known[topic].partitions:
                    ends[topic] += offset_range(consumer, topic, partition, PATIENCE_SECONDS)[1]
        except KafkaException as error:
            raise ClusterError(
                f"listing the log ends of {', '.join(ends)} on {bootstrap}: {error}; "
                "check that the cluster answers"
            ) from error
    return ends


def offset_range(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """Returns the first offset and the log end offset; waits for a leader if there is none yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
        except KafkaException as error:
            cause = error.args[0]
            is_retriable = isinstance(cause, KafkaError) and cause.code() in NO_LEADER_YET
            if not is_retriable or time.monotonic() > deadline:
                raise
        consumer.list_topics(topic, timeout=seconds)  # refreshes the leader, and paces the loop


def _consumer(bootstrap: str, isolation: Isolation) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "replication-compare",  # the client requires one; it never joins
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 16_384,
            "log_level": 0,
        }
    )
