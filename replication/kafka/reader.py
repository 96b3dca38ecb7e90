"""Reads bounded spans of partitions, record by record, to compare and to name records.

Joins no group and commits nothing. Replicated records are never read this way, but by Spark.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as KafkaTopicPartition

from replication.kafka.calls import join_names, timeout_s
from replication.kafka.clients import open_consumer
from replication.kafka.diagnosis import (
    RETRIABLE,
    UNREACHABLE,
    CallError,
    ClientDiagnostics,
    call_error,
    kafka_error,
)
from replication.kafka.reach import LOOK_SECONDS, bound_s, reach_of
from replication.model import Isolation, TopicPartition
from replication.offsets.copy_rule import Headers

T = TypeVar("T")

PARTITIONS_AT_ONCE: Final = 100
"""How many partitions one consumer reads together; librdkafka holds at most 64 MB of them."""

POLL_SECONDS: Final = 0.5
"""The longest wait for one record, so that the timeout is checked in time."""

END: Final = "_PARTITION_EOF"


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record as it is in the log. ``timestamp_ms`` is -1 for a record without a timestamp.

    ``is_append_time`` says that the cluster has set it, and not the producer.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_append_time: bool = False


Visit = Callable[[TopicPartition, KafkaRecord], object]
"""Takes a record of a partition; a true answer ends the reading of that partition."""


def read_records(
    properties: Mapping[str, str],
    tp: TopicPartition,
    from_offset: int,
    until_offset: int,
    isolation: Isolation,
) -> list[KafkaRecord]:
    """Reads the records of *tp* with offsets in [from_offset, until_offset) that exist now.

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
    records: list[KafkaRecord] = []
    with Reader(properties, isolation) as reader:
        low, high = reader.bounds(tp)
        span = max(from_offset, low), min(until_offset, high)
        reader.visit({tp: span}, lambda _tp, record: records.append(record))
    return records


class Reader(AbstractContextManager["Reader"]):
    """One consumer for spans of many partitions of a cluster. It is closed with the block.

    Args:
        properties: Client properties in Java's key space, ``bootstrap.servers`` among them.
        isolation: ``read_committed`` leaves out aborted and open transactions.
    """

    def __init__(self, properties: Mapping[str, str], isolation: Isolation) -> None:
        self._properties = properties
        self._timeout_s = timeout_s(properties)
        self._bound_s = bound_s(properties)
        self._reach = reach_of(properties)
        self._diagnostics = ClientDiagnostics()
        try:
            self._consumer = open_consumer(properties, isolation, self._diagnostics)
        except KafkaException as failure:
            raise self._error(kafka_error(failure), ()) from None

    def __exit__(self, *_: object) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def visit(self, spans: Mapping[TopicPartition, tuple[int, int]], visit: Visit) -> None:
        """Calls *visit* with each record of *spans*, of a partition in the order of its log.

        A limited number of partitions is read at a time. Offsets without a record are skipped.

        Args:
            spans: First offset and end offset by partition. An end must not be beyond the log end
                of the reader's isolation, and a start not beyond its end.
            visit: Takes the records.

        Raises:
            CallError: The cluster does not answer, denies access, or has no such partition.
        """
        filled = ((tp, span) for tp, span in spans.items() if span[0] < span[1])
        for some in chunks(filled, PARTITIONS_AT_ONCE):
            with self._errors([tp for tp, _ in some]):
                self._visit_together(dict(some), visit)

    def bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """Returns the first offset in the log, and the one after the last that may be read."""
        deadline = time.monotonic() + self._timeout_s
        if silence := self._reach.await_answer(self._bound_s):
            raise self._failure(silence.code, silence.text, [tp])
        with self._errors([tp]):
            while True:
                try:
                    kafka_tp = KafkaTopicPartition(*tp)
                    bounds = self._consumer.get_watermark_offsets(kafka_tp, timeout=self._timeout_s)
                    return cast("tuple[int, int]", bounds)
                except KafkaException as failure:  # noqa: PERF203 - a loop of retries
                    is_retriable = kafka_error(failure).name() in RETRIABLE
                    if not is_retriable or time.monotonic() > deadline:
                        raise
                    self._consumer.poll(POLL_SECONDS)  # a new partition has no leader yet

    def _visit_together(self, spans: dict[TopicPartition, tuple[int, int]], visit: Visit) -> None:
        self._consumer.assign([KafkaTopicPartition(*tp, span[0]) for tp, span in spans.items()])
        last_at = time.monotonic()
        while spans:
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                late_s = time.monotonic() - last_at
                silence = self._reach.given_up(self._bound_s) if late_s >= LOOK_SECONDS else None
                if silence is not None:
                    raise self._failure(silence.code, silence.text, spans)
                if late_s >= self._timeout_s:
                    raise self._error(None, spans)
                continue
            last_at = time.monotonic()
            is_end = _is_end(message)
            tp = TopicPartition(cast("str", message.topic()), cast("int", message.partition()))
            if tp in spans and (is_end or _is_last(_record(message), tp, spans[tp], visit)):
                del spans[tp]
                self._consumer.incremental_unassign([KafkaTopicPartition(*tp)])

    @contextmanager
    def _errors(self, partitions: Collection[TopicPartition]) -> Iterator[None]:
        try:
            yield
        except KafkaException as failure:
            self._consumer.poll(0)  # librdkafka runs the error callback in `poll` only
            raise self._error(kafka_error(failure), partitions) from None

    def _error(self, error: KafkaError | None, partitions: Collection[TopicPartition]) -> CallError:
        """Returns the error of a read; *error* is None if the cluster did not answer."""
        code, reason = self._diagnostics.reason(error)
        if code in UNREACHABLE and (silence := self._reach.look()):
            code, reason = silence.code, silence.text
        return self._failure(code, reason, partitions)

    def _failure(self, code: str, reason: str, partitions: Collection[TopicPartition]) -> CallError:
        call = f"reading {join_names([str(tp) for tp in partitions])}".rstrip()
        return call_error(None, self._properties, call, code, reason)


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields *values* in lists of at most *size*."""
    left = iter(values)
    while some := list(islice(left, size)):
        yield some


def _is_last(record: KafkaRecord, tp: TopicPartition, span: tuple[int, int], visit: Visit) -> bool:
    """Lets *visit* take *record* if it is in *span*; returns whether it wants no further one."""
    start, until = span
    if not start <= record.offset < until:  # of a log that was cut meanwhile, all are before it
        return True
    return bool(visit(tp, record)) or record.offset == until - 1


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
        is_append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
    )
