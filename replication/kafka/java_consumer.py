"""Java's consumer with the methods of confluent-kafka's that `Reader` calls.

It speaks every security protocol of Java's clients, and is in no group. See
`replication/jvm/calls/RecordReader.java`.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
)
from confluent_kafka import TopicPartition as KafkaTopicPartition
from py4j.java_gateway import JVMView

from replication.kafka.java_errors import java_errors
from replication.kafka.jvm import java_map

COUNT: Final = Struct(">i")
RECORD: Final = Struct(">iqq?")  # partition, offset, timestamp, whether the cluster has set it
SETTINGS: Final = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": "false",
    "fetch.max.bytes": "16777216",  # what one round trip brings to Python at most
    "max.poll.records": "5000",  # a round trip costs tens of milliseconds
    "fetch.max.wait.ms": "50",  # for the end of a partition that holds nothing more
}


@dataclass(frozen=True, slots=True)
class JavaMessage:
    """A record, or the end of a partition, as confluent-kafka's ``Message``."""

    at: KafkaTopicPartition
    timestamp_ms: int = -1
    content: tuple[bytes | None, bytes | None] = (None, None)
    header_list: tuple[tuple[str, bytes | None], ...] = ()
    is_end: bool = False
    is_append_time: bool = False

    def topic(self) -> str:
        """Returns the topic."""
        return self.at.topic

    def partition(self) -> int:
        """Returns the partition's number."""
        return self.at.partition

    def offset(self) -> int:
        """Returns the record's offset."""
        return self.at.offset

    def key(self) -> bytes | None:
        """Returns the record's key."""
        return self.content[0]

    def value(self) -> bytes | None:
        """Returns the record's value."""
        return self.content[1]

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Returns the record's headers."""
        return self.header_list

    def timestamp(self) -> tuple[int, int]:
        """Returns the kind of the timestamp, and its value in ms."""
        kind = TIMESTAMP_LOG_APPEND_TIME if self.is_append_time else TIMESTAMP_CREATE_TIME
        return (TIMESTAMP_NOT_AVAILABLE if self.timestamp_ms < 0 else kind), self.timestamp_ms

    def error(self) -> KafkaError | None:
        """Returns Kafka's name of the end of a partition, None for a record."""
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None  # noqa: SLF001


class JavaConsumer:
    """The client, for one thread.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.

    Raises:
        KafkaException: No client can be created with these properties.
    """

    def __init__(self, jvm: JVMView, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._partitions: list[KafkaTopicPartition] = []
        self._messages: deque[JavaMessage] = deque()
        self._dropped: set[int] = set()
        self._ended: set[int] = set()
        settings = java_map(jvm, {**properties, **SETTINGS})
        with java_errors(jvm):
            self._java = jvm.replication.calls.RecordReader(settings)

    def close(self) -> None:
        """Closes the connections."""
        with java_errors(self._jvm):
            self._java.close()

    def assign(self, partitions: Sequence[KafkaTopicPartition]) -> None:
        """Reads *partitions* from their offsets, instead of all others."""
        self._partitions = list(partitions)
        self._messages.clear()
        self._dropped = set()
        self._ended = set()
        with java_errors(self._jvm):
            self._java.clear()
            for tp in partitions:
                self._java.add(tp.topic, tp.partition, tp.offset)

    def incremental_unassign(self, partitions: Sequence[KafkaTopicPartition]) -> None:
        """Reads *partitions* no longer, from the next request on."""
        names = {(tp.topic, tp.partition) for tp in partitions}
        for number, tp in enumerate(self._partitions):
            if (tp.topic, tp.partition) in names and number not in self._ended:
                self._ended.add(number)
                self._dropped.add(number)

    def get_watermark_offsets(self, tp: KafkaTopicPartition, timeout: float) -> tuple[int, int]:
        """Returns the first offset, and the one after the last that may be read."""
        with java_errors(self._jvm):
            first, end = self._java.bounds(tp.topic, tp.partition, int(timeout * 1000))
        return first, end

    def poll(self, timeout: float) -> JavaMessage | None:
        """Waits for the next record or end of a partition; None after *timeout* s without any."""
        if not self._messages and len(self._ended) == len(self._partitions):
            time.sleep(timeout)  # a pause of the caller's: there is nothing to read
        elif not self._messages:
            with java_errors(self._jvm):
                if self._dropped:
                    self._java.drop(",".join(map(str, sorted(self._dropped))))
                    self._dropped.clear()
                self._messages.extend(self._read(self._java.poll(int(timeout * 1000))))
        return self._messages.popleft() if self._messages else None

    def _read(self, data: bytes) -> Iterator[JavaMessage]:
        """Yields what `RecordReader.poll` wrote: records, then ends."""
        at = 0

        def count() -> int:
            nonlocal at
            at += COUNT.size
            return int(COUNT.unpack_from(data, at - COUNT.size)[0])

        def content() -> bytes | None:
            nonlocal at
            size = count()
            if size < 0:
                return None
            at += size
            return bytes(data[at - size : at])

        for _ in range(count()):
            number, offset, timestamp_ms, is_append_time = RECORD.unpack_from(data, at)
            at += RECORD.size
            key_and_value = content(), content()
            headers = tuple(((content() or b"").decode(), content()) for _ in range(count()))
            yield JavaMessage(
                self._tp(number, offset),
                timestamp_ms,
                key_and_value,
                headers,
                is_append_time=is_append_time,
            )
        for _ in range(count()):
            yield JavaMessage(self._tp(count(), -1), is_end=True)

    def _tp(self, number: int, offset: int) -> KafkaTopicPartition:
        tp = self._partitions[number]
        return KafkaTopicPartition(tp.topic, tp.partition, offset)
