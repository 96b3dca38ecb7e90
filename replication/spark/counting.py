"""Counts records on the source in bounded Spark reads: which offset follows the k-th record.

Offsets are not counts, because compaction, transaction markers and aborted records leave gaps.
Executors count; only the results reach the driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.copies import copied
from replication.spark.frames import frame_of
from replication.spark.kafka_options import offsets_json, source_options

EARLIEST = -2
"""Spark's number for the first offset of a partition."""


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """*records* records of one partition, from offset *start* on."""

    start: int
    records: int


def offsets_after(
    spark: SparkSession,
    consumer: Mapping[str, str],
    spans: Mapping[TopicPartition, RecordSpan],
    ends: Mapping[TopicPartition, int],
    rule: CopyRule,
) -> dict[TopicPartition, int]:
    """Returns the offset after the last record of each span; only those that are copied count.

    If every offset holds a record, which is the rule, one count confirms it. If not, the records
    of windows that double in width are numbered until the last one is found.

    Args:
        spark: Needs one free slot.
        consumer: Effective client properties of the source; their isolation level counts.
        spans: At least one record each.
        ends: The source's log end offsets; nothing is read at or beyond them.
        rule: Which records are copied.

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
        records = copied(read_windows(spark, consumer, windows), rule)
        records = records.select("topic", "partition", "offset")
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


def count_records(
    spark: SparkSession,
    consumer: Mapping[str, str],
    windows: Mapping[TopicPartition, tuple[int, int]],
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
    windows: Mapping[TopicPartition, tuple[int, int]],
) -> DataFrame:
    """Reads the records of some partitions, each from one offset up to another."""
    options = source_options(consumer, {tp: start for tp, (start, _) in windows.items()})
    ends = offsets_json({tp: until for tp, (_, until) in windows.items()})
    return spark.read.format("kafka").options(**options).option("endingOffsets", ends).load()


def read_all(spark: SparkSession, consumer: Mapping[str, str], tp: TopicPartition) -> DataFrame:
    """Reads all records of a partition."""
    options = {**source_options(consumer, {tp: EARLIEST}), "endingOffsets": "latest"}
    return spark.read.format("kafka").options(**options).load()


def _counted(records: DataFrame) -> DataFrame:
    """Counts the records in each window, with the last one's offset, without a shuffle of rows."""
    return records.groupBy("topic", "partition").agg(
        F.count("*").alias("records"), F.max("offset").alias("last")
    )


def _numbered(records: DataFrame, spans: Mapping[TopicPartition, RecordSpan]) -> DataFrame:
    """Counts as `_counted` does, with ``at``: the offset of the span's last record, or null."""
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
