"""Reads a topic's log from its start to the end it has now, partition by partition, in order."""

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
# A partition that was created a moment ago, or whose broker starts, has no leader yet.
NO_LEADER_YET = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)


class Content(NamedTuple):
    """What must be equal on both sides. None is null, which is not the same as empty bytes."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Record(NamedTuple):
    """A record and where its log has it."""

    offset: int
    content: Content


@dataclass(frozen=True, slots=True)
class TopicLog:
    """One topic's log on one cluster, read from its start to the end it has when asked."""

    bootstrap: str
    topic: str
    isolation: Isolation
    patience_seconds: float = PATIENCE_SECONDS

    def partitions(self) -> set[int]:
        """The topic's partitions; none if the topic does not exist."""
        with closing(_consumer(self.bootstrap, self.isolation)) as consumer:
            try:
                metadata = consumer.list_topics(self.topic, timeout=self.patience_seconds)
            except KafkaException as error:
                raise self._failure(f"cannot be listed: {error}") from error
            return set(metadata.topics[self.topic].partitions)

    def records(self, partition: int) -> Iterator[Record]:
        """The records of one partition, in order."""
        with closing(_consumer(self.bootstrap, self.isolation)) as consumer:
            try:
                low, end = _ends(consumer, self.topic, partition, self.patience_seconds)
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
            # consume() waits for as many as were asked for, or else for the whole timeout.
            for message in consumer.consume(min(BATCH_RECORDS, end), timeout=0.1):
                at, error = message.offset() or 0, message.error()
                if error is None and at < end:
                    yield Record(at, _content(message))
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                # The event matters where a log ends in transaction markers, which are no records.
                if at >= end - (error is None):
                    return
                # Taken anew at each record, for whoever reads us may be slow.
                deadline = time.monotonic() + self.patience_seconds
        raise self._failure(f"partition {partition} stands still at offset {at} of {end}")

    def _failure(self, text: str) -> ClusterError:
        return ClusterError(
            f"comparing topic {self.topic!r} on {self.bootstrap}: {text}; "
            "see whether the cluster answers and the topic still exists"
        )


def _content(message: Message) -> Content:
    _, timestamp_ms = message.timestamp()
    headers = tuple(message.headers() or ())
    return Content(message.key(), message.value(), headers, timestamp_ms)


def log_ends(bootstrap: str, topics: Iterable[str]) -> dict[str, int]:
    """The sum of each topic's log end offsets; 0 for one that does not exist (yet)."""
    ends = dict.fromkeys(topics, 0)
    with closing(_consumer(bootstrap, "read_uncommitted")) as consumer:
        try:
            known = consumer.list_topics(timeout=PATIENCE_SECONDS).topics
            for topic in ends.keys() & known.keys():
                for partition in known[topic].partitions:
                    ends[topic] += _ends(consumer, topic, partition, PATIENCE_SECONDS)[1]
        except KafkaException as error:
            raise ClusterError(
                f"asking {bootstrap} for the log ends of {', '.join(ends)}: {error}; "
                "see whether the cluster answers"
            ) from error
    return ends


def _ends(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """The offsets of the first record and past the last one."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
        except KafkaException as error:
            cause = error.args[0]
            is_passing = isinstance(cause, KafkaError) and cause.code() in NO_LEADER_YET
            if not is_passing or time.monotonic() > deadline:
                raise
        consumer.list_topics(topic, timeout=seconds)  # learns the leader, and paces the loop


def _consumer(bootstrap: str, isolation: Isolation) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "replication-compare",  # demanded by the client, never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 16_384,
            "log_level": 0,
        }
    )
