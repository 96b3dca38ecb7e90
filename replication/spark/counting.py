"""Counts records on the source in bounded Spark reads: which offset follows the k-th record.

Offsets are not counts, because compaction, transaction markers and aborted records leave gaps.
Executors count; only the results reach the driver.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.copies import copied
from replication.spark.kafka_options import offsets_json, sharing_options, source_options
from replication.spark.mode import SHARED, Sharing


def frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """Makes a frame of *schema* from *rows*.

    `createDataFrame` sends a list through Python workers, which take seconds to start. A JSON
    literal is read in the JVM.

    Args:
        spark: The session.
        rows: Columns by name; an absent one is null. Times are aware datetimes, a
            binary is bytes.
        schema: The columns as in SQL: ``topic string, partition int``.
    """
    text = json.dumps(list(rows), default=_text)
    parsed = F.from_json(F.lit(text), f"array<struct<{schema}>>")
    return spark.range(1).select(F.inline(parsed))


def _text(value: object) -> str:
    # Spark's JSON has neither times nor bytes
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a row of a table has a {type(value).__name__}")


def trigger_stream(spark: SparkSession) -> DataFrame:
    """Returns a stream of one row in each micro-batch, for a query that only needs its trigger."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return stream.option("numPartitions", 1).load()


MOST_GROWTH = 16
"""By what a window of offsets grows at most, where the last one held few records or none."""

Windows = Mapping[TopicPartition, tuple[int, int]]
"""First offset and end of some partitions."""

EARLIEST = -2
"""Spark's number for the first offset of a partition."""


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """*records* records of one partition, from offset *start* on."""

    start: int
    records: int


@dataclass(frozen=True, slots=True)
class CountedSpan:
    """Where the last record of a span is.

    Args:
        until: The offset after it.
        borders: Some numbers of records, and the offset after the last of so many, in order: what
            is between two of them has gaps.
    """

    until: int
    borders: tuple[tuple[int, int], ...] = ()


def offsets_after(
    read: Callable[[Windows], DataFrame],
    spans: Mapping[TopicPartition, RecordSpan],
    ends: Mapping[TopicPartition, int],
    rule: CopyRule,
    *,
    spacing: int = 0,
) -> dict[TopicPartition, CountedSpan]:
    """Returns the offset after the last record of each span; only those that are copied count.

    If every offset holds a record, which is the rule, one count confirms it. If not, the records
    of further windows are numbered until the last one is found.

    Args:
        read: Reads the source: `read_windows` with a session and client properties, whose isolation
            level counts.
        spans: At least one record each.
        ends: The source's log end offsets; nothing is read at or beyond them.
        rule: Which records are copied.
        spacing: How many records are at most between two borders; 0 for none.

    Returns:
        No entry for a partition that holds fewer records before its end.
    """
    search, is_dense = _Search(spans), not rule.chains
    while windows := search.windows(ends):
        own = rule.only({tp.topic for tp in windows})
        records = copied(read(windows), own)
        records = records.select("topic", "partition", "offset")
        counted = _counted(records) if is_dense else _numbered(records, search.left, spacing)
        rows = {TopicPartition(row.topic, row.partition): row for row in counted.collect()}
        search.note(windows, rows, is_numbered=not is_dense)
        is_dense = False
    return search.found


class _Search:
    """The records of some spans that are still to be found.

    Args:
        spans: By partition.

    Attributes:
        found: What was found.
        left: What was not yet: partitions without an entry have no offset left.
    """

    def __init__(self, spans: Mapping[TopicPartition, RecordSpan]) -> None:
        self._spans = spans
        self._widths = {tp: span.records for tp, span in spans.items()}
        self._borders = dict.fromkeys(spans, tuple[tuple[int, int], ...]())
        self.found: dict[TopicPartition, CountedSpan] = {}
        self.left = dict(spans)

    def windows(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns the offsets to be read next, before the *ends* of the logs."""
        return {
            tp: (span.start, min(ends[tp], span.start + self._widths[tp]))
            for tp, span in self.left.items()
            if span.start < ends[tp]
        }

    def note(
        self,
        windows: Mapping[TopicPartition, tuple[int, int]],
        rows: Mapping[TopicPartition, Row],
        *,
        is_numbered: bool,
    ) -> None:
        """Notes what *windows* hold: *rows* are of `_numbered` or of `_counted`."""
        for tp, row in rows.items():
            if is_numbered:
                before = self._spans[tp].records - self.left[tp].records
                self._borders[tp] += tuple((before + one.n, one.offset + 1) for one in row.borders)
            if is_numbered and row.at is not None:
                self.found[tp] = CountedSpan(row.at + 1, self._borders[tp])
            elif row.records == self.left[tp].records:
                self.found[tp] = CountedSpan(row.last + 1, self._borders[tp])
        seen = {tp: rows[tp].records if tp in rows else 0 for tp in windows}
        self.left = {
            tp: RecordSpan(until, self.left[tp].records - seen[tp])
            for tp, (_, until) in windows.items()
            if tp not in self.found
        }
        for tp, span in self.left.items():
            width = windows[tp][1] - windows[tp][0]
            self._widths[tp] = next_width(width, seen[tp], span.records)


def next_width(width: int, records: int, left: int) -> int:
    """Returns how many offsets are read next: as many as hold those *left*, at the last density."""
    if not records:
        return MOST_GROWTH * width
    return min(MOST_GROWTH * width, max(2 * left, 1 + 6 * left * width // (5 * records)))


def count_records(
    spark: SparkSession,
    consumer: Mapping[str, str],
    windows: Windows,
    rule: CopyRule,
) -> dict[TopicPartition, int]:
    """Counts the records of each window that are copied.

    Args:
        spark: Needs one free slot.
        consumer: Effective client properties of the source; their isolation level counts.
        windows: First offset and end offset, neither beyond what the source has.
        rule: Which records are copied.

    Returns:
        No entry for a partition without any.
    """
    records = copied(read_windows(spark, consumer, windows), rule)
    counted = _counted(records.select("topic", "partition", "offset")).collect()
    return {TopicPartition(row.topic, row.partition): row.records for row in counted}


def read_windows(
    spark: SparkSession,
    consumer: Mapping[str, str],
    windows: Windows,
    sharing: Sharing | None = None,
) -> DataFrame:
    """Reads the records of some partitions, each from one offset up to another.

    Args:
        spark: The session.
        consumer: Effective client properties of the cluster that has them.
        windows: First offset and end of each.
        sharing: How tasks share them, with the shared source. None is Spark's, in which each has a
            task of its own: a failure of one is none of the others'.
    """
    starts = {tp: start for tp, (start, _) in windows.items()}
    ends = offsets_json({tp: until for tp, (_, until) in windows.items()})
    if sharing is None:
        source, options = "kafka", source_options(consumer, starts)
    else:
        options = sharing_options(consumer, starts, sharing.tasks, sharing.brokers)
        source = SHARED
    return spark.read.format(source).options(**options).option("endingOffsets", ends).load()


def read_all(spark: SparkSession, consumer: Mapping[str, str], tp: TopicPartition) -> DataFrame:
    options = {**source_options(consumer, {tp: EARLIEST}), "endingOffsets": "latest"}
    return spark.read.format("kafka").options(**options).load()


def _counted(records: DataFrame) -> DataFrame:
    """Counts the records in each window, with the last one's offset, without a shuffle of rows."""
    return records.groupBy("topic", "partition").agg(
        F.count("*").alias("records"), F.max("offset").alias("last")
    )


def _numbered(
    records: DataFrame, spans: Mapping[TopicPartition, RecordSpan], spacing: int
) -> DataFrame:
    """Counts as `_counted` does, with ``at``, the offset of the span's last record, or null.

    Beside it are ``borders``: number and offset of every so many records of the span.
    """
    wanted = [
        {"topic": tp.topic, "partition": tp.partition, "wanted": span.records}
        for tp, span in spans.items()
    ]
    schema = "topic string, partition int, wanted bigint"
    wanted_of = frame_of(records.sparkSession, wanted, schema)
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    number, is_inside = F.col("n"), F.col("n") < F.col("wanted")
    is_border = is_inside & (number % spacing == 0) if spacing else F.lit(False)
    return (
        records.withColumn("n", F.row_number().over(in_order))
        .join(F.broadcast(wanted_of), ["topic", "partition"])
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.max("offset").alias("last"),
            F.max(F.when(number == F.col("wanted"), F.col("offset"))).alias("at"),
            F.array_sort(F.collect_list(F.when(is_border, F.struct("n", "offset")))).alias(
                "borders"
            ),
        )
    )


# Finds the record on which evaluating an expression throws, by trying windows.
#
# Most of Spark's functions give NULL where ANSI is off. A few throw, and do not say on which
# record. Where our jar guards the expressions of transforms they never do; this is for sessions
# without it.


@dataclass(frozen=True, slots=True)
class ThrowingRecord:
    """The first record of a window that throws, and what may be shown of that."""

    offset: int
    text: str


def throwing_records(
    read: Callable[[Windows], DataFrame],
    evaluate: Callable[[DataFrame], DataFrame],
    windows: Windows,
) -> dict[TopicPartition, ThrowingRecord]:
    """Returns the first record of each window that throws; absent where none does.

    Args:
        read: Reads windows, without evaluating anything.
        evaluate: Evaluates the expressions on what was read.
        windows: None of them empty.

    Raises:
        PySparkException, Py4JJavaError: The records cannot be read, whatever is evaluated.
    """
    found = {}
    for tp, (start, until) in windows.items():
        low, high, text = start, until, _failure(read, evaluate, {tp: (start, until)})
        while text and high - low > 1:
            middle = (low + high) // 2
            if thrown := _failure(read, evaluate, {tp: (low, middle)}):
                text, high = thrown, middle
            else:
                low = middle
        # what failed before may have been a moment's trouble, which no record is to blame for
        if text and (thrown := _failure(read, evaluate, {tp: (low, low + 1)})):
            read({tp: (low, low + 1)}).count()
            found[tp] = ThrowingRecord(low, thrown)
    return found


def _failure(
    read: Callable[[Windows], DataFrame],
    evaluate: Callable[[DataFrame], DataFrame],
    windows: Windows,
) -> str:
    try:
        evaluate(read(windows)).collect()
    except SPARK_ERRORS as error:
        return said(error)
    return ""
