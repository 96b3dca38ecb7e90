"""Reads bounded spans of partitions, record by record, to compare and to name records.

Joins no group and commits nothing. Replicated records are never read this way, but by Spark.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Final, TypeVar

from py4j.java_gateway import JavaObject, JVMView

from replication.config.client_keys import with_defaults
from replication.java import java_class
from replication.kafka.api import (
    READ_PARTITIONS,
    READ_TOPIC,
    Call,
    ClientError,
    ClientFailure,
    KafkaRecord,
)
from replication.kafka.calls import open_records, timeout_s
from replication.kafka.diagnosis import (
    OWN_END,
    RETRIABLE,
    SECURITY_CODES,
    UNREACHABLE,
    CallError,
    call_error,
)
from replication.kafka.java_clients import java_errors
from replication.kafka.jvm import java_map
from replication.kafka.reach import LOOK_SECONDS, bound_s, reach_of
from replication.model import Isolation, TopicPartition

# Kafka's consumers tell nothing of the headers of batches: `NewestCodecs.java` and
# `DamagedBatch.java` in `replication/jvm/calls` ask the leaders themselves.


def newest_codecs(
    jvm: JVMView, properties: Mapping[str, str], topics: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Returns the codecs of the newest batches of *topics*, those of the newest first.

    Args:
        jvm: Has our classes.
        properties: Of a consumer, in Java's key space.
        topics: Their names; one without a batch, or whose leader does not tell, is absent.

    Raises:
        CallError: The cluster does not answer, or denies access.
    """
    names = json.dumps(sorted(topics))
    with _asking(jvm, properties, READ_TOPIC.of(*topics)) as (settings, timeout_ms):
        text = java_class(jvm, "replication.calls.NewestCodecs").of(settings, names, timeout_ms)
    return {topic: tuple(codecs) for topic, codecs in json.loads(text).items()}


def damaged_batch(
    jvm: JVMView, properties: Mapping[str, str], tp: TopicPartition, offset: int
) -> tuple[int, int] | None:
    """Returns the first and the last offset of the next batch of *tp* if its checksum is wrong.

    Args:
        jvm: Has our classes.
        properties: Of a consumer, in Java's key space.
        tp: The partition.
        offset: Where the batch is looked for.

    Raises:
        CallError: The cluster does not answer, or denies access.
    """
    with _asking(jvm, properties, READ_PARTITIONS.of(tp)) as (settings, timeout_ms):
        found = java_class(jvm, "replication.calls.DamagedBatch").of(
            settings, tp.topic, tp.partition, offset, timeout_ms
        )
    return None if found is None else (int(found[0]), int(found[1]))


@contextmanager
def _asking(
    jvm: JVMView, properties: Mapping[str, str], call: Call
) -> Iterator[tuple[JavaObject, int]]:
    """Gives what Java needs to make *call* as a consumer: its settings, its timeout in ms."""
    settings = java_map(jvm, with_defaults("consumer", properties))
    try:
        with java_errors(jvm):
            yield settings, int(1000 * timeout_s(properties))
    except ClientError as error:
        raise call_error(None, properties, call, error.failure) from None


T = TypeVar("T")

PARTITIONS_AT_ONCE: Final = 100
"""How many partitions one consumer reads together; librdkafka holds at most 64 MB of them."""

MOST_NAMED: Final = 3
"""Of so many partitions that cannot be read an error says why."""

POLL_SECONDS: Final = 0.5
"""The longest wait for one record, so that the timeout is checked in time."""

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
        try:
            self._records = open_records(properties, isolation)
        except ClientError as error:
            raise self._error(error.failure, ()) from None

    def __exit__(self, *_: object) -> None:
        self._records.close()

    def visit(self, spans: Mapping[TopicPartition, tuple[int, int]], visit: Visit) -> None:
        """Calls *visit* with each record of *spans*, of a partition in the order of its log.

        A limited number of partitions is read at a time. Offsets without a record are skipped. If
        one of them cannot be read, all that are left are read alone, from where they were: so the
        error comes last, and its `rejected` has only the topics that it is about.

        Args:
            spans: First offset and end offset by partition. An end must not be beyond the log end
                of the reader's isolation, and a start not beyond its end.
            visit: Takes the records.

        Raises:
            CallError: The cluster does not answer, denies access, or has no such partition.
        """
        filled = ((tp, span) for tp, span in spans.items() if span[0] < span[1])
        unread: dict[TopicPartition, ClientFailure] = {}
        for some in chunks(filled, PARTITIONS_AT_ONCE):
            left = dict(some)
            failure = self._tried(left, visit)
            if failure is not None and len(left) == 1:
                unread |= dict.fromkeys(left, failure)
            elif failure is not None:
                for tp, span in left.items():
                    if alone := self._tried({tp: span}, visit):
                        unread[tp] = alone
        if not unread:
            return
        errors = {tp: self._failed(failure, [tp]) for tp, failure in unread.items()}
        text = "; ".join(str(error) for error in islice(errors.values(), MOST_NAMED))
        if len(errors) > MOST_NAMED:
            text = f"{text}; and {len(errors) - MOST_NAMED} more partitions"
        first, rejected = next(iter(errors.values())), dict[str, str]()
        for tp, error in errors.items():
            rejected.setdefault(tp.topic, str(error))
        raise CallError(text, first.code, rejected, first.command)

    def bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """Returns the first offset in the log, and the one after the last that may be read."""
        deadline = time.monotonic() + self._timeout_s
        if silence := self._reach.await_answer(self._bound_s):
            raise self._failed(silence, [tp])
        try:
            while True:
                try:
                    return self._records.bounds(tp, self._timeout_s)
                except ClientError as error:  # noqa: PERF203 - a loop of retries
                    if error.failure.code not in RETRIABLE or time.monotonic() > deadline:
                        raise
                    self._records.poll(POLL_SECONDS)  # a new partition has no leader yet
        except ClientError as error:
            raise self._error(error.failure, [tp]) from None

    def _tried(
        self, spans: dict[TopicPartition, tuple[int, int]], visit: Visit
    ) -> ClientFailure | None:
        """Visits *spans*; returns what the client said of one of those that are left in it.

        Raises:
            CallError: The cluster as a whole does not answer, or knows the user not.
        """
        try:
            self._visit_together(spans, visit)
        except ClientError as error:
            if error.failure.code in UNREACHABLE | RETRIABLE | SECURITY_CODES | OWN_END:
                raise self._error(error.failure, spans) from None
            return error.failure
        return None

    def _visit_together(self, spans: dict[TopicPartition, tuple[int, int]], visit: Visit) -> None:
        """Visits *spans*, in which each is what is left of it, and no more once it is done."""
        self._records.assign({tp: start for tp, (start, _) in spans.items()})
        last_at = time.monotonic()
        while spans:
            found = self._records.poll(POLL_SECONDS)
            if found is None:
                late_s = time.monotonic() - last_at
                silence = self._reach.given_up(self._bound_s) if late_s >= LOOK_SECONDS else None
                if silence is not None:
                    raise self._failed(silence, spans)
                if late_s >= self._timeout_s:
                    none = ClientFailure("_TIMED_OUT", "no answer")
                    raise self._error(self._records.cause(none), spans)
                continue
            last_at = time.monotonic()
            tp, record = found
            if tp not in spans:
                continue
            start, until = spans[tp]
            if (
                record is None
                # of a log that was cut meanwhile, all are before it
                or not start <= record.offset < until
                or visit(tp, record)
                or record.offset == until - 1
            ):
                del spans[tp]
                self._records.drop(tp)
            else:
                spans[tp] = record.offset + 1, until

    def _error(self, failure: ClientFailure, partitions: Collection[TopicPartition]) -> CallError:
        """Returns the error of a read that has failed; of a silent cluster, what it met there."""
        if failure.code in UNREACHABLE and (silence := self._reach.look()):
            failure = silence
        return self._failed(failure, partitions)

    def _failed(self, failure: ClientFailure, partitions: Collection[TopicPartition]) -> CallError:
        return call_error(None, self._properties, READ_PARTITIONS.of(*partitions), failure)


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields *values* in lists of at most *size*."""
    left = iter(values)
    while some := list(islice(left, size)):
        yield some
