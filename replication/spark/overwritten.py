"""Finds out what a compacted source says of a copy whose last records it no longer has.

Compaction removes a record once a newer one has its key, and older ones of that key with it. So of
a partition of which a mirror has copied a part, the source may have lost the last records that were
copied, and a record that it still has was copied only if its copy, or a newer one of its key, is
there. Executors compare.
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.spark.gaps import PLACE, CopiedPair, Logs, printed


def newest_kept(
    spark: SparkSession, logs: Logs, pairs: Sequence[CopiedPair]
) -> dict[TopicPartition, tuple[int, int, int]]:
    """Returns the newest record of each copy that the source still has.

    Records without a time of their own are left out: equal ones may be at many places.

    Args:
        spark: Needs one free slot.
        logs: How both clusters are read.
        pairs: What is compared.

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
    """Returns those of *pairs* in which the source has a newer record of each key of the copy.

    Args:
        spark: Needs one free slot.
        logs: How both clusters are read.
        pairs: What is compared.
    """
    ours, theirs = printed(spark, logs, pairs)
    latest = ours.groupBy(*PLACE, "key").agg(F.max("time_ms").alias("latest_ms"))
    keys = theirs.groupBy(*PLACE, "key").agg(
        F.max("time_ms").alias("copied_ms"), F.max(F.col("time_ms").isNull()).alias("is_untimed")
    )
    is_newer = (F.col("latest_ms") > F.col("copied_ms")) & ~F.col("is_untimed")
    found = keys.join(latest, [*PLACE, "key"], "left").groupBy(*PLACE)
    rows = found.agg(F.min(F.coalesce(is_newer, F.lit(False))).alias("all_newer")).collect()
    return {TopicPartition(row.topic, row.partition) for row in rows if row.all_newer}
