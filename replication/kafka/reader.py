"""Reads a bounded span of one partition, record by record, to compare and to name records.

Joins no group and commits nothing. Replicated records are never read this way, but by Spark.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.config.clients.librdkafka import librdkafka_properties
from replication.kafka.calls import timeout_s
from replication.kafka.diagnosis import (
    RETRIABLE,
    CallError,
    ClientDiagnostics,
    call_error,
    kafka_error,
)
from replication.model import Isolation, TopicPartition

BATCH_RECORDS: Final = 1_000
POLL_SECONDS: Final = 0.5
"""The longest wait for one batch, so that the timeout is checked in time."""

END: Final = "_PARTITION_EOF"
OWNED: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",  # retention may delete the first offset before it is read
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # the last offsets of a span may hold no record
    "queued.min.messages": BATCH_RECORDS,
}


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record as it is in the log. ``timestamp_ms`` is -1 for a record without a timestamp."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(
    properties: Mapping[str, str],
    tp: TopicPartition,
    from_offset: int,
    until_offset: int,
    isolation: Isolation,
) -> list[KafkaRecord]:
    """The records of *tp* with offsets in [from_offset, until_offset) that exist now.

    Offsets without a record (retention, compaction, aborted transactions) are skipped. An
    *until_offset* beyond the log end means the log end.

    Args:
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        tp: The partition, by its name on that cluster.
        from_offset: The first offset.
        until_offset: The offset after the last one.
        isolation: ``read_committed`` leaves out aborted and open transactions.

    Raises:
        CallError: The cluster does not answer, denies access, or has no such partition.
    """
    reader = _Reader(properties, tp, isolation)
    try:
        return reader.read(from_offset, until_offset)
    except KafkaException as failure:
        reader.collect_errors()
        raise reader.error(kafka_error(failure)) from None
    finally:
        reader.close()


class _Reader:
    def __init__(self, properties: Mapping[str, str], tp: TopicPartition, isolation: str) -> None:
        self._servers = properties.get("bootstrap.servers", "")
        self._tp, self._timeout_s = tp, timeout_s(properties)
        self._diagnostics = ClientDiagnostics()
        settings: dict[str, Any] = {
            "group.id": "replication-reader",  # required by librdkafka, never joined
            **librdkafka_properties(properties),
            **OWNED,
            "isolation.level": isolation,
            "error_cb": self._diagnostics.on_error,
        }
        try:
            logger: Any = self._diagnostics  # has the only method of a logger that librdkafka calls
            self._consumer = Consumer(settings, logger=logger)
        except KafkaException as failure:
            raise self.error(kafka_error(failure)) from None

    def read(self, from_offset: int, until_offset: int) -> list[KafkaRecord]:
        low, high = self._bounds()
        start, until = max(from_offset, low), min(until_offset, high)
        if start >= until:
            return []
        self._consumer.assign([KafkaTopicPartition(*self._tp, start)])
        records: list[KafkaRecord] = []
        last_at = time.monotonic()
        while time.monotonic() - last_at < self._timeout_s:
            wanted = min(BATCH_RECORDS, until - start)
            for message in self._consumer.consume(wanted, timeout=POLL_SECONDS):
                last_at = time.monotonic()
                if _is_end(message):
                    return records
                record = _record(message)
                if record.offset < until:
                    records.append(record)
                if record.offset >= until - 1:
                    return records
        raise self.error(None)

    def _bounds(self) -> tuple[int, int]:
        """The first offset in the log, and the one after the last that may be read."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                tp = KafkaTopicPartition(*self._tp)
                return self._consumer.get_watermark_offsets(tp, timeout=self._timeout_s)
            except KafkaException as failure:  # noqa: PERF203 - a loop of retries
                if kafka_error(failure).name() not in RETRIABLE or time.monotonic() > deadline:
                    raise
                self._consumer.poll(POLL_SECONDS)  # a new partition has no leader yet

    def collect_errors(self) -> None:
        """Lets librdkafka run the error callback, which it does in `poll` only."""
        self._consumer.poll(0)

    def error(self, error: KafkaError | None) -> CallError:
        """The error of this read; *error* is None if the cluster did not answer."""
        code, reason = self._diagnostics.reason(error)
        return call_error(None, self._servers, f"reading {self._tp}", code, reason)

    def close(self) -> None:
        self._consumer.close()


def _is_end(message: Message) -> bool:
    error = message.error()
    if error is not None and error.name() != END:
        raise KafkaException(error)
    return error is not None


def _record(message: Message) -> KafkaRecord:
    kind, timestamp_ms = message.timestamp()
    return KafkaRecord(
        offset=cast("int", message.offset()),  # None is for records not yet sent
        timestamp_ms=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
