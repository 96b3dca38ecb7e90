"""Counts records on the source in bounded Spark reads: which offset follows the k-th record.

Offsets are not counts, because compaction, transaction markers and aborted records leave gaps.
Executors count; only the results reach the driver.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replication.model import PROVENANCE, Timestamps, TopicPartition
from replication.spark.frames import frame_of
from replication.spark.kafka_options import offsets_json, source_options

EARLIEST = -2
"""Spark's number for the first offset of a partition."""


FINGERPRINTS_AT_ONCE = 1_000_000
"""24 bytes each in Spark's memory, and ``spark.driver.maxResultSize`` is 1 GB by default."""


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """*records* records of one partition, from offset *start* on."""

    start: int
    records: int


@dataclass(frozen=True, slots=True)
class Equal:
    """How many records of a partition equal one record, and their offsets if they are few."""

    records: int
    offsets: tuple[int, ...]


def offsets_after(
    spark: SparkSession,
    consumer: Mapping[str, str],
    spans: Mapping[TopicPartition, RecordSpan],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset after the last record of each span.

    If every offset holds a record, which is the rule, one count confirms it. If not, the records
    of windows that double in width are numbered until the last one is found.

    Args:
        spark: Needs one free slot.
        consumer: Effective client properties of the source; their isolation level counts.
        spans: At least one record each.
        ends: The source's log end offsets; nothing is read at or beyond them.

    Returns:
        No entry for a partition that holds fewer records before its end.
    """
    found: dict[TopicPartition, int] = {}
    left = dict(spans)
    factor = 1
    while left:
        windows = {
            tp: (span.start, min(ends[tp], span.start + factor * span.records))
            for tp, span in left.items()
            if span.start < ends[tp]
        }
        records = _read(spark, consumer, windows).select("topic", "partition", "offset")
        counted = _counted(records) if factor == 1 else _numbered(records, left)
        counts = {TopicPartition(row.topic, row.partition): row for row in counted.collect()}
        for tp, row in counts.items():
            if factor > 1 and row.at is not None:
                found[tp] = row.at + 1
            elif row.records == left[tp].records:
                found[tp] = row.last + 1
        left = {
            tp: RecordSpan(until, left[tp].records - (counts[tp].records if tp in counts else 0))
            for tp, (_, until) in windows.items()
            if tp not in found
        }
        factor *= 2
    return found


def fingerprints(
    spark: SparkSession,
    consumer: Mapping[str, str],
    tp: TopicPartition,
    window: tuple[int, int],
    timestamps: Timestamps,
    *,
    at_once: int = FINGERPRINTS_AT_ONCE,
) -> Iterator[tuple[int, int]]:
    """The offset of each record and a 64-bit hash of its key, value, headers and timestamp.

    Used only to repair a mismatch. With *timestamps* of the broker they are not part of the hash.
    A Spark job reads a limited number of offsets, since its result is held in memory.
    """
    start, end = window
    for begin in range(start, end, at_once):
        part = begin, min(end, begin + at_once)
        records = _read(spark, consumer, {tp: part})
        for row in records.select("offset", _digest(timestamps)).toLocalIterator():
            yield row["offset"], row["digest"]


def equal_records(
    spark: SparkSession,
    source: tuple[Mapping[str, str], TopicPartition],
    target: tuple[Mapping[str, str], TopicPartition],
    window: tuple[int, int],
    *,
    most: int,
) -> dict[int, Equal]:
    """The records of a source partition that equal those of a window of the target.

    Reads the whole source partition, twice. Timestamps are not compared.

    Args:
        spark: Needs one free slot.
        source: Effective client properties, and the partition.
        target: The same of the target.
        window: First offset and end offset of the target's records.
        most: The most equal records whose offsets are returned.

    Returns:
        By offset on the target.
    """
    wanted = dict(fingerprints(spark, *target, window, "broker"))
    records = _read_all(spark, *source).select("offset", _digest("broker"))
    equal = records.where(F.col("digest").isin(list(set(wanted.values()))))
    counts = {row["digest"]: row["count"] for row in equal.groupBy("digest").count().collect()}
    # counted first: the offsets of a record that is repeated for years would not fit in memory
    few = [digest for digest, count in counts.items() if count <= most]
    found: dict[int, list[int]] = {}
    for row in records.where(F.col("digest").isin(few)).orderBy("offset").collect():
        found.setdefault(row["digest"], []).append(row["offset"])
    return {
        offset: Equal(counts.get(digest, 0), tuple(found.get(digest, ())))
        for offset, digest in wanted.items()
    }


def _digest(timestamps: Timestamps) -> Column:
    # xxhash64 skips nulls, so that null and empty would look alike without the flags
    nulls = [F.col(name).isNull() for name in ("key", "value")]
    own = F.filter("headers", lambda header: header["key"] != PROVENANCE)
    headers = F.to_json(F.coalesce(own, F.array()))  # Spark gives null for no headers
    times = [F.unix_millis("timestamp")] if timestamps == "preserve" else []
    return F.xxhash64("key", "value", headers, *times, *nulls).alias("digest")


def _counted(records: DataFrame) -> DataFrame:
    """The number of records in each window and the last one's offset, without a shuffle of rows."""
    return records.groupBy("topic", "partition").agg(
        F.count("*").alias("records"), F.max("offset").alias("last")
    )


def _numbered(records: DataFrame, spans: Mapping[TopicPartition, RecordSpan]) -> DataFrame:
    """As `_counted`, with ``at``: the offset of the span's last record, null if not reached."""
    wanted = [
        {"topic": tp.topic, "partition": tp.partition, "wanted": span.records}
        for tp, span in spans.items()
    ]
    schema = "topic string, partition int, wanted bigint"
    wanted_of = frame_of(records.sparkSession, wanted, schema)
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    return (
        records.withColumn("n", F.row_number().over(in_order))
        .join(F.broadcast(wanted_of), ["topic", "partition"])
        .groupBy("topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.max("offset").alias("last"),
            F.max(F.when(F.col("n") == F.col("wanted"), F.col("offset"))).alias("at"),
        )
    )


def _read(
    spark: SparkSession,
    consumer: Mapping[str, str],
    windows: Mapping[TopicPartition, tuple[int, int]],
) -> DataFrame:
    options = source_options(consumer, {tp: start for tp, (start, _) in windows.items()})
    ends = offsets_json({tp: until for tp, (_, until) in windows.items()})
    return spark.read.format("kafka").options(**options).option("endingOffsets", ends).load()


def _read_all(spark: SparkSession, consumer: Mapping[str, str], tp: TopicPartition) -> DataFrame:
    options = {**source_options(consumer, {tp: EARLIEST}), "endingOffsets": "latest"}
    return spark.read.format("kafka").options(**options).load()
