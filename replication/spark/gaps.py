"""Finds source records that a copy of their partition lacks. Executors compare.

The last records of both sides are compared by their number from the end, so that offsets without a
record (transaction markers, aborted records, deleted ones) do not matter. Where that shows a
difference, records are looked up one by one: others may be there twice, or compacted away.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule, Fingerprint
from replication.spark.copies import printed_copies, printed_originals
from replication.spark.counting import frame_of, read_all, read_windows
from replication.spark.mode import Sharing

# Records are reduced to hashes of 64 bits, as `CopyRule.original` and `CopyRule.copy` do it.

FINGERPRINTS_AT_ONCE = 1_000_000
"""24 bytes each in Spark's memory, and ``spark.driver.maxResultSize`` is 1 GB by default."""


@dataclass(frozen=True, slots=True)
class Equal:
    """How many records of a partition equal one record, and their offsets if they are few."""

    records: int
    offsets: tuple[int, ...]


def originals(
    spark: SparkSession,
    consumer: Mapping[str, str],
    tp: TopicPartition,
    window: tuple[int, int],
    rule: CopyRule,
    *,
    at_once: int = FINGERPRINTS_AT_ONCE,
) -> Iterator[Fingerprint]:
    """Yields the fingerprints of a source partition's records from one offset up to another.

    A Spark job reads a limited number of offsets, since its result is held in memory.
    """
    start, end = window
    rule = rule.only([tp.topic])
    for begin in range(start, end, at_once):
        part = begin, min(end, begin + at_once)
        yield from _collected(printed_originals(read_windows(spark, consumer, {tp: part}), rule))


def copies(
    spark: SparkSession,
    consumer: Mapping[str, str],
    remote: TopicPartition,
    window: tuple[int, int],
    rule: CopyRule,
) -> Iterator[Fingerprint]:
    """Yields the fingerprints of a remote partition's records, as `originals` does."""
    start, end = window
    for begin in range(start, end, FINGERPRINTS_AT_ONCE):
        part = begin, min(end, begin + FINGERPRINTS_AT_ONCE)
        records = read_windows(spark, consumer, {remote: part})
        yield from _collected(printed_copies(records, rule))


def equal_originals(
    spark: SparkSession,
    source: tuple[Mapping[str, str], TopicPartition],
    target: tuple[Mapping[str, str], TopicPartition],
    window: tuple[int, int],
    rule: CopyRule,
    *,
    most: int,
) -> dict[int, Equal]:
    """Finds a source partition's records that may be the originals of those in a copy's window.

    Reads the whole source partition, twice.

    Args:
        spark: Needs one free slot.
        source: Effective client properties, and the partition.
        target: The same of the target.
        window: First offset and end offset of the target's records.
        rule: What copies look like.
        most: The most equal records whose offsets are returned.

    Returns:
        By offset on the target.
    """
    wanted = list(copies(spark, *target, window, rule))
    if not wanted:
        return {}
    rows = [{"at": one.offset, "copied": one.content, "copied_ms": one.time_ms} for one in wanted]
    frame = F.broadcast(frame_of(spark, rows, "at bigint, copied bigint, copied_ms bigint"))
    records = printed_originals(read_all(spark, *source), rule)
    equal = records.join(frame, (F.col("content") == F.col("copied")) & same_time("copied_ms"))
    counts = {row["at"]: row["count"] for row in equal.groupBy("at").count().collect()}
    # counted first: the offsets of a record that is repeated for years would not fit in memory
    few = [at for at, count in counts.items() if count <= most]
    found: dict[int, list[int]] = {}
    for row in equal.where(F.col("at").isin(few)).orderBy("offset").collect():
        found.setdefault(row["at"], []).append(row["offset"])
    return {
        one.offset: Equal(counts.get(one.offset, 0), tuple(found.get(one.offset, ())))
        for one in wanted
    }


def same_time(copied_ms: str) -> Column:
    """Returns whether ``time_ms`` and another column do not contradict each other."""
    ours, theirs = F.col("time_ms"), F.col(copied_ms)
    return ours.isNull() | theirs.isNull() | (ours == theirs)


def _collected(printed: DataFrame) -> Iterator[Fingerprint]:
    for row in printed.select("offset", "content", "time_ms").toLocalIterator():
        yield Fingerprint(row["offset"], row["content"], row["time_ms"])


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
        spark: As for all questions here, it needs one free slot.
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


# Finds out what a compacted source says of a copy whose last records it no longer has.
#
# Compaction removes a record once a newer one has its key, and older ones of that key with it. So
# of a partition of which a mirror has copied a part, the source may have lost the last records
# that were copied, and a record that it still has was copied only if its copy, or a newer one of
# its key, is there. Executors compare.


def newest_kept(
    spark: SparkSession, logs: Logs, pairs: Sequence[CopiedPair]
) -> dict[TopicPartition, tuple[int, int, int]]:
    """Returns the newest record of each copy that the source still has.

    Records without a time of their own are left out: equal ones may be at many places.

    Returns:
        Its offset on the target, that of its original, the first one of equal ones, and the number
        of records behind it on the target. No entry for a copy of which the source has none.
    """
    ours, theirs = printed(spark, logs, pairs)
    copies = theirs.select(*PLACE, "content", "time_ms", F.col("offset").alias("at"))
    equal = ours.join(copies, [*PLACE, "content", "time_ms"]).groupBy(*PLACE, "at")
    kept = equal.agg(F.min("offset").alias("original"))
    newest = kept.groupBy(*PLACE).agg(F.max(F.struct("at", "original")).alias("newest"))
    counted = theirs.join(F.broadcast(newest), [*PLACE]).groupBy(*PLACE, "newest")
    rows = counted.agg(F.count_if(F.col("offset") > F.col("newest.at")).alias("newer")).collect()
    return {
        TopicPartition(row.topic, row.partition): (row.newest.at, row.newest.original, row.newer)
        for row in rows
    }


def overwritten(
    spark: SparkSession, logs: Logs, pairs: Sequence[CopiedPair]
) -> set[TopicPartition]:
    """Returns those of *pairs* in which the source has a newer record of each key of the copy."""
    ours, theirs = printed(spark, logs, pairs)
    latest = ours.groupBy(*PLACE, "key").agg(F.max("time_ms").alias("latest_ms"))
    keys = theirs.groupBy(*PLACE, "key").agg(
        F.max("time_ms").alias("copied_ms"), F.max(F.col("time_ms").isNull()).alias("is_untimed")
    )
    is_newer = (F.col("latest_ms") > F.col("copied_ms")) & ~F.col("is_untimed")
    found = keys.join(latest, [*PLACE, "key"], "left").groupBy(*PLACE)
    rows = found.agg(F.min(F.coalesce(is_newer, F.lit(False))).alias("all_newer")).collect()
    return {TopicPartition(row.topic, row.partition) for row in rows if row.all_newer}
