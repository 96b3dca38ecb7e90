"""Records of both sides, reduced to what is compared, whoever evaluates what a copy looks like.

Kafka's client reads the copies, and the originals of topics without transforms. Of the others only
Spark knows what their copies are, so it reads and hashes them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame, Row

from replication.kafka.api import KafkaRecord
from replication.kafka.reader import PARTITIONS_AT_ONCE, Reader, chunks
from replication.model import Isolation, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.fingerprint import Fingerprint
from replication.positions.sides import FlowSides, compared
from replication.spark.causes import SPARK_ERRORS
from replication.spark.copies import NO_TIME, digested_originals, next_originals
from replication.spark.counting import read_windows
from replication.spark.throwing import ThrowingRecord, throwing_records

Spans = Mapping[TopicPartition, tuple[int, int]]
"""First offset and end offset by partition, as `Reader.visit` takes them."""


@dataclass(frozen=True, slots=True)
class Original(Fingerprint):
    """A record of the source that is copied, with the bytes of its copy."""

    size: int


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The first record of a span that is copied, or that a transform fails on.

    Args:
        offset: Its place.
        size: The bytes of its copy.
        failure: Why it cannot be copied; empty if nothing keeps it.
    """

    offset: int
    size: int
    failure: str = ""


class Prints(Protocol):
    """Reads records of one side as fingerprints; those that are not copied are left out."""

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Fingerprint], object]) -> None:
        """Calls *visit* with each, in order; a true answer ends the reading of a partition."""


class Copies(AbstractContextManager["Copies"]):
    """The records of a target.

    Args:
        context: The flow.
        rule: What a copy looks like.
        isolation: Whether aborted and open transactions are left out.
    """

    def __init__(self, context: FlowSides, rule: CopyRule, isolation: Isolation) -> None:
        self._reader = Reader(context.config.target.consumer, isolation)
        self._rule = rule

    def __exit__(self, *_: object) -> None:
        """Closes the consumer."""
        self._reader.__exit__()

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Fingerprint], object]) -> None:
        """Calls *visit* with each record, in order.

        Raises:
            CallError: The target does not answer.
        """
        self._reader.visit(spans, lambda tp, record: visit(tp, self._rule.copy(record)))


class Originals(AbstractContextManager["Originals"]):
    """The records of a source, as their copies are.

    Args:
        context: The flow.
        rule: What a copy looks like.
    """

    def __init__(self, context: FlowSides, rule: CopyRule) -> None:
        config = context.config
        self._context = context
        self._reader = Reader(config.source.consumer, config.isolation)
        self._rule = rule

    def __exit__(self, *_: object) -> None:
        """Closes the consumer."""
        self._reader.__exit__()

    def visit(self, spans: Spans, visit: Callable[[TopicPartition, Original], object]) -> None:
        """Calls *visit* with each record that is copied, in order.

        Raises:
            ClusterError: The source does not answer, or Spark cannot read it.
        """
        plain = {tp: span for tp, span in spans.items() if tp.topic not in self._rule.chains}
        self._reader.visit(plain, partial(_visit_copied, self._rule, visit))
        changed = {tp: span for tp, span in spans.items() if tp not in plain}
        for some in chunks(changed.items(), PARTITIONS_AT_ONCE):
            done = set[TopicPartition]()
            for tp, one in self._evaluated(dict(some)):
                if tp not in done and visit(tp, one):
                    done.add(tp)

    def next(self, spans: Spans) -> dict[TopicPartition, NextRecord]:
        """Returns the first record of each span that is not left out; absent where there is none.

        Raises:
            ClusterError: The source does not answer, or Spark cannot read it.
        """
        found: dict[TopicPartition, NextRecord] = {}

        def take(tp: TopicPartition, one: Original) -> bool:
            found[tp] = NextRecord(one.offset, one.size)
            return True

        plain = {tp: span for tp, span in spans.items() if tp.topic not in self._rule.chains}
        self._reader.visit(plain, partial(_visit_copied, self._rule, take))
        if not (windows := self._held({tp: at for tp, at in spans.items() if tp not in plain})):
            return found
        rows, throwing = self._rows(windows, next_originals)
        for tp, at in throwing.items():
            text = f"the transforms fail on {tp} offset {at.offset}: {at.text}"
            found[tp] = NextRecord(at.offset, 0, text)
        for row in rows:
            tp = TopicPartition(row.topic, row.partition)
            found[tp] = NextRecord(row.offset, row.size, row.failure or "")
        return found

    def _evaluated(self, spans: Spans) -> Iterator[tuple[TopicPartition, Original]]:
        """Yields records of topics with transforms, in the order of each partition."""
        if not (windows := self._held(spans)):
            return
        rows, _ = self._rows(windows, digested_originals)
        for row in rows:
            time_ms = None if row.time_ms == NO_TIME else row.time_ms
            one = Original(row.offset, bytes.fromhex(row.content), time_ms, row.size)
            yield TopicPartition(row.topic, row.partition), one

    def _rows(
        self, windows: Spans, evaluate: Callable[[DataFrame, CopyRule], DataFrame]
    ) -> tuple[list[Row], dict[TopicPartition, ThrowingRecord]]:
        """Returns what *evaluate* says of *windows*, up to the records that it throws on."""
        rule = self._rule.only({tp.topic for tp in windows})

        def evaluated(records: DataFrame) -> DataFrame:
            return evaluate(records, rule)

        with compared(self._context.config.flow):
            try:
                return evaluated(self._records(windows)).collect(), {}
            except SPARK_ERRORS:
                throwing = throwing_records(self._records, evaluated, windows)
                if not throwing:
                    raise
            left = {
                tp: (start, throwing[tp].offset if tp in throwing else until)
                for tp, (start, until) in windows.items()
            }
            left = {tp: at for tp, at in left.items() if at[0] < at[1]}
            return evaluated(self._records(left)).collect() if left else [], throwing

    def _held(self, spans: Spans) -> dict[TopicPartition, tuple[int, int]]:
        """Returns what the source still has of *spans*: Spark reads nothing else."""
        earliest = self._context.source.earliest(spans) if spans else {}
        held = {tp: (max(at[0], earliest.get(tp, at[0])), at[1]) for tp, at in spans.items()}
        return {tp: window for tp, window in held.items() if window[0] < window[1]}

    def _records(self, windows: Spans) -> DataFrame:
        return read_windows(self._context.spark, self._context.config.source.consumer, windows)


def _visit_copied(
    rule: CopyRule,
    visit: Callable[[TopicPartition, Original], object],
    tp: TopicPartition,
    record: KafkaRecord,
) -> object:
    one = rule.original(tp.topic, record)
    if one is None:
        return False
    return visit(tp, Original(one.offset, one.content, one.time_ms, rule.copy_of(record).size))
