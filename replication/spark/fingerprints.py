"""Records reduced to hashes by Spark, to find those of the target in the source.

As `CopyRule.original` and `CopyRule.copy` do, with a hash of 64 bits. Executors hash.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.fingerprint import Fingerprint
from replication.spark.copies import printed_copies, printed_originals
from replication.spark.counting import read_all, read_windows
from replication.spark.frames import frame_of

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
    """Yields the same of a remote partition."""
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
