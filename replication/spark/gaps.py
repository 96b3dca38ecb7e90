"""Finds source records that a copy of their partition lacks. Executors compare.

The last records of both sides are compared by their number from the end, so that offsets without a
record (transaction markers, aborted records, deleted ones) do not matter. Where that shows a
difference, records are looked up one by one: others may be there twice, or compacted away.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.copies import printed_copies, printed_originals
from replication.spark.counting import read_windows
from replication.spark.fingerprints import same_time
from replication.spark.frames import frame_of
from replication.spark.sources import Sharing

PLACE = ("topic", "partition")
UNTIMED = -1
"""Stands for the time of a record that has none."""


@dataclass(frozen=True, slots=True)
class Logs:
    """How both clusters are read.

    Args:
        source: Effective client properties; their isolation level counts.
        target: The same of the target.
        rule: What copies look like.
        sharing: As in `read_windows`, of both.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    rule: CopyRule
    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True)
class CopiedPair:
    """A partition, its copy, and the offsets of both that are compared: first and end."""

    tp: TopicPartition
    remote: TopicPartition
    originals: tuple[int, int]
    copies: tuple[int, int]


@dataclass(frozen=True, slots=True)
class EqualEnds:
    """How many of the last records are equal on both logs, in order.

    Args:
        records: So many.
        differ: Whether the records before them are different.
        older: How many records of the source the copy has no counterpart for, since it is shorter.
    """

    records: int
    differ: bool
    older: int


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """Records of the source that the copy lacks: the first one's offset, and how many."""

    first: int
    records: int


def equal_ends(
    spark: SparkSession, logs: Logs, pairs: Sequence[CopiedPair]
) -> dict[TopicPartition, EqualEnds]:
    """Compares the last records of each of *pairs*, up to the start of the shorter side."""
    last_first = Window.partitionBy(*PLACE).orderBy(F.desc("offset"))
    ours, theirs = (
        side.withColumn("n", F.row_number().over(last_first))
        for side in printed(spark, logs, pairs)
    )
    copies = theirs.selectExpr(
        *PLACE, "n", "offset AS at", "content AS copied", "time_ms AS copied_ms"
    )
    is_equal = (F.col("content") == F.col("copied")) & same_time("copied_ms")
    differs = F.col("at").isNotNull() & ~is_equal
    numbered = ours.join(copies, [*PLACE, "n"], "left").withColumn("differs", differs)
    newest = Window.partitionBy(*PLACE).orderBy("n")
    before = F.max("differs").over(newest)  # whether this record differs, or a later one
    ends = numbered.withColumn("is_equal", ~before & F.col("at").isNotNull()).groupBy(*PLACE)
    rows = ends.agg(
        F.count_if("is_equal").alias("records"),
        F.max("differs").alias("differ"),
        F.count_if(F.col("at").isNull()).alias("older"),
    ).collect()
    return {
        TopicPartition(row.topic, row.partition): EqualEnds(row.records, row.differ, row.older)
        for row in rows
    }


def missing_records(
    spark: SparkSession,
    logs: Logs,
    pairs: Sequence[CopiedPair],
    *,
    from_first: Collection[TopicPartition],
    compacted: Collection[TopicPartition],
) -> dict[TopicPartition, MissingRecords]:
    """Finds the records that the copies lack, wherever they are among the others.

    Of equal records the copy must have as many as the source.

    Args:
        spark: Needs one free slot.
        logs: How both clusters are read.
        pairs: What is compared.
        from_first: Partitions whose copy must have all records of the source. In those of others
            only what follows the first record counts that the copy has.
        compacted: Partitions whose copy is compacted: of each key the last record counts.

    Returns:
        No entry for a partition whose copy lacks nothing.
    """
    ours, theirs = printed(spark, logs, pairs)
    untimed = theirs.where("time_ms IS NULL").select(*PLACE).distinct()
    # where the target has set times, those of the source do not help to find a record
    ours = ours.join(F.broadcast(untimed.withColumn("is_untimed", F.lit(True))), [*PLACE], "left")
    time_ms = F.when(F.col("is_untimed").isNull(), F.col("time_ms"))
    ours = ours.withColumn("time_ms", F.coalesce(time_ms, F.lit(UNTIMED)))
    times = F.array_distinct(F.array(F.coalesce("time_ms", F.lit(UNTIMED)), F.lit(UNTIMED)))
    theirs = theirs.withColumn("time_ms", F.explode(times))
    marked = _flags(spark, pairs, from_first, compacted)
    flagged = (side.join(marked, [*PLACE]) for side in (ours, theirs))
    ours, theirs = (_numbered(side) for side in flagged)
    present = theirs.select(*PLACE, "content", "time_ms", "nth", F.lit(True).alias("there"))
    present = present.distinct()
    found = ours.join(present, [*PLACE, "content", "time_ms", "nth"], "left")
    found = _without_superseded(found, theirs)
    first = F.min(F.when(F.col("there"), F.col("offset"))).over(Window.partitionBy(*PLACE))
    counts = F.col("there").isNull() & (F.col("from_first") | (F.col("offset") > F.col("first")))
    rows = (
        found.withColumn("first", first)
        .where(counts)
        .groupBy(*PLACE)
        .agg(F.min("offset").alias("lacked"), F.count("*").alias("records"))
        .collect()
    )
    return {
        TopicPartition(row.topic, row.partition): MissingRecords(row.lacked, row.records)
        for row in rows
    }


def printed(
    spark: SparkSession, logs: Logs, pairs: Sequence[CopiedPair]
) -> tuple[DataFrame, DataFrame]:
    """Fingerprints of both logs, those of the copies under the names of the originals."""
    originals = {pair.tp: pair.originals for pair in pairs}
    records = read_windows(spark, logs.source, originals, logs.sharing)
    committed = {**logs.target, "isolation.level": "read_committed"}
    copied = {pair.remote: pair.copies for pair in pairs}
    written = read_windows(spark, committed, copied, logs.sharing)
    names = {pair.remote.topic: pair.tp.topic for pair in pairs}
    rows = [{"remote": remote, "upstream": topic} for remote, topic in names.items()]
    upstream = F.broadcast(frame_of(spark, rows, "remote string, upstream string"))
    copies = printed_copies(written, logs.rule).withColumnRenamed("topic", "remote")
    named = copies.join(upstream, "remote").drop("remote").withColumnRenamed("upstream", "topic")
    return printed_originals(records, logs.rule), named


def _flags(
    spark: SparkSession,
    pairs: Sequence[CopiedPair],
    from_first: Collection[TopicPartition],
    compacted: Collection[TopicPartition],
) -> DataFrame:
    rows = [
        {
            **pair.tp._asdict(),
            "from_first": pair.tp in from_first,
            "is_compacted": pair.tp in compacted,
        }
        for pair in pairs
    ]
    schema = "topic string, partition int, from_first boolean, is_compacted boolean"
    return F.broadcast(frame_of(spark, rows, schema))


def _numbered(records: DataFrame) -> DataFrame:
    """Numbers equal *records* in ``nth``: their place, which compaction would change."""
    equal = Window.partitionBy(*PLACE, "content", "time_ms").orderBy("offset")
    nth = F.when(F.col("is_compacted"), 1).otherwise(F.row_number().over(equal))
    return records.withColumn("nth", nth)


def _without_superseded(found: DataFrame, copies: DataFrame) -> DataFrame:
    """Leaves out of *found* what compaction may have removed from compacted copies.

    Those are all but the last one of a key, and that one as well, if it says that the key has ended
    and the copy has nothing of the key.
    """
    of_key = Window.partitionBy(*PLACE, "key")
    is_last = F.col("offset") == F.max("offset").over(of_key)
    keys = (
        copies.where("is_compacted").select(*PLACE, "key", F.lit(True).alias("has_key")).distinct()
    )
    known = found.withColumn("is_last", is_last).join(keys, [*PLACE, "key"], "left")
    is_expected = F.col("is_last") & (~F.col("ends") | F.col("has_key").isNotNull())
    return known.where(~F.col("is_compacted") | F.coalesce(is_expected, F.lit(False)))
