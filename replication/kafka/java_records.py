"""Java's consumer behind `replication.kafka.api.Records`: one round trip for many records.

It speaks every security protocol of Java's clients, and is in no group. See
`replication/jvm/calls/RecordReader.java`.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from py4j.java_gateway import JVMView

from replication.java import java_class
from replication.kafka.api import ClientFailure, KafkaRecord
from replication.kafka.java_errors import java_errors
from replication.kafka.jvm import java_map
from replication.model import Isolation, TopicPartition

COUNT: Final = Struct(">i")
RECORD: Final = Struct(">iqq?i")
"""Partition, offset, timestamp, whether the cluster has set it, leader epoch."""
SETTINGS: Final = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": "false",
    "fetch.max.bytes": "16777216",  # what one round trip brings to Python at most
    "max.poll.records": "10",  # by which a round trip may exceed that, each perhaps of megabytes
    "fetch.max.wait.ms": "50",  # for the end of a partition that holds nothing more
}


class JavaRecords:
    """The consumer; see `api.Records`.

    Args:
        jvm: py4j's view of a JVM that has our classes.
        properties: Client properties in Java's key space.
        isolation: Whether records of open and aborted transactions are read.

    Raises:
        ClientError: No client can be created with these properties.
    """

    def __init__(self, jvm: JVMView, properties: Mapping[str, str], isolation: Isolation) -> None:
        self._jvm = jvm
        self._partitions: list[TopicPartition] = []
        self._records: deque[tuple[TopicPartition, KafkaRecord | None]] = deque()
        self._dropped: set[int] = set()
        self._ended: set[int] = set()
        self._polls = 0
        settings = java_map(jvm, {**properties, **SETTINGS, "isolation.level": isolation})
        with java_errors(jvm):
            self._java = java_class(jvm, "replication.calls.RecordReader")(settings)

    def close(self) -> None:
        """Closes the connections."""
        with java_errors(self._jvm):
            self._java.close()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from their offsets."""
        self._partitions = list(starts)
        self._records.clear()
        self._dropped = set()
        self._ended = set()
        self._polls = 0
        with java_errors(self._jvm):
            self._java.clear()
            for tp, offset in starts.items():
                self._java.add(tp.topic, tp.partition, offset)

    def drop(self, tp: TopicPartition) -> None:
        """Reads *tp* no longer, from the next request on."""
        number = self._partitions.index(tp)
        self._ended.add(number)
        self._dropped.add(number)

    def bounds(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Returns the first offset, and the one after the last that may be read."""
        with java_errors(self._jvm):
            first, end = self._java.bounds(tp.topic, tp.partition, int(timeout_s * 1000))
        return first, end

    def poll(self, timeout_s: float) -> tuple[TopicPartition, KafkaRecord | None] | None:
        """Waits for the next record, or the end of a partition."""
        if not self._records and len(self._ended) == len(self._partitions):
            time.sleep(timeout_s)  # a pause of the caller's: there is nothing to read
        elif not self._records:
            with java_errors(self._jvm):
                if self._dropped:
                    self._java.drop(",".join(map(str, sorted(self._dropped))))
                    self._dropped.clear()
                self._polls += 1
                found = self._java.poll(self._polls, int(timeout_s * 1000))
            self._records.extend(self._read(found))
        return self._records.popleft() if self._records else None

    def cause(self, failure: ClientFailure) -> ClientFailure:
        """Returns *failure*: Java's client names its causes itself."""
        return failure

    def _read(self, data: bytes) -> Iterator[tuple[TopicPartition, KafkaRecord | None]]:
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
            number, offset, timestamp_ms, is_append_time, epoch = RECORD.unpack_from(data, at)
            at += RECORD.size
            key, value = content(), content()
            headers = tuple(((content() or b"").decode(), content()) for _ in range(count()))
            is_append_time = is_append_time and timestamp_ms >= 0
            record = KafkaRecord(
                offset, timestamp_ms, key, value, headers, is_append_time,
                epoch if epoch >= 0 else None,
            )  # fmt: skip
            yield self._partitions[number], record
        for _ in range(count()):
            yield self._partitions[count()], None
