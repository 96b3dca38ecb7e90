"""The projection of records from Spark's Kafka source to Spark's Kafka sink. No I/O.

`copies` decides what a copy looks like; here it gets its remote topic, and a carrier for what
Spark's sink has no column for. Everything is a Catalyst expression, because records passing through
Python would cost several times the CPU.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.copies import copies_of
from replication.spark.interceptor import CARRIER

COUNTS = "counts"
"""Observed metric: a histogram ``[{x: code of a partition, y: records}]`` of a batch."""

PARTITION_BITS = 20
"""Bits of a code that hold the partition's number; the others hold the topic's CRC."""

SOURCE_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
"""Spark's Kafka source with ``includeHeaders``."""

TARGET_SCHEMA = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, "
    "partition int"
)
"""What `to_target` returns, and Spark's Kafka sink takes."""


def to_target(
    records: DataFrame,
    remote_topics: Mapping[str, str],
    rule: CopyRule,
    *,
    intercepted: bool,
) -> DataFrame:
    """Turns the source's records into those to be written; drops those that are not copied.

    Args:
        records: `SOURCE_SCHEMA`.
        remote_topics: The remote topic of every upstream topic in *records*.
        rule: What the copies look like.
        intercepted: Whether to put the carrier before the key, which the interceptor removes.

    Returns:
        `TARGET_SCHEMA`, in the order of *records*.
    """
    return copies_of(records, rule).select(
        _carried_key() if intercepted else F.col("key"),
        "value",
        "headers",
        _remote_topic(remote_topics).alias("topic"),
        "partition",
    )


def counts_column(partitions: Sequence[TopicPartition]) -> Column:
    """Returns an aggregate that counts the records of each partition, for `counts_of`.

    It takes `TARGET_SCHEMA`, with remote partitions, or `SOURCE_SCHEMA`.

    ``histogram_numeric`` with one bin per partition is exact: there are never more distinct values
    than bins, so no bins are merged.
    """
    bins = max(2, len(partitions))
    return F.histogram_numeric(_code(partitions), F.lit(bins)).alias(COUNTS)


def counts_of(
    histogram: Iterable[Any] | None, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Records per partition, from the bars of `counts_column`; without records it is absent."""
    by_code = {code: tp for tp, code in partition_codes(partitions).items()}
    counts: Counter[TopicPartition] = Counter()
    for bar in histogram or ():
        # merging the histograms of two tasks may leave two bars for one partition
        counts[by_code[round(bar["x"])]] += round(bar["y"])
    return dict(counts)


def partition_codes(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns a number below 2^53 for each of *partitions*, which a double holds exactly.

    It is computed from a record's topic alone, so it costs the same with one topic and with 2000.
    Only where two topics have the same CRC (one in 2000 flows of 2000 topics) it is the topic's
    place among *partitions*, which costs a comparison per topic and record.
    """
    topics = list(dict.fromkeys(tp.topic for tp in partitions))
    codes = {topic: crc32(topic.encode()) for topic in topics} if len(topics) > 1 else {}
    if len(set(codes.values())) < len(topics):
        codes = {topic: place for place, topic in enumerate(topics)}
    return {tp: (codes[tp.topic] << PARTITION_BITS) + tp.partition for tp in partitions}


def _carried_key() -> Column:
    """Returns the key behind its carrier, for the interceptor.

    The carrier is `CARRIER`, the epoch milliseconds (-1 for none) and the offset, 8 big-endian
    bytes each. The offset's complement stands for a key that is null and not empty.
    """
    key, offset = F.col("key"), F.col("offset")
    marked = F.when(key.isNull(), F.bitwise_not(offset)).otherwise(offset)
    numbers = (number.cast(LongType()).cast(BinaryType()) for number in (F.col("time_ms"), marked))
    return F.concat(F.lit(CARRIER), *numbers, F.coalesce(key, F.lit(b""))).alias("key")


def _remote_topic(remote_topics: Mapping[str, str]) -> Column:
    """Returns the remote topic's name, as the cheapest expression for it.

    MirrorMaker 2's policies put one prefix before some topics and do not rename the others, so that
    no lookup per record is needed. A policy of the user's may put texts on both sides, or choose
    another name, which is looked for among the names that are chosen so.
    """
    around: dict[tuple[str, str] | None, list[str]] = {}
    for topic, remote in remote_topics.items():
        around.setdefault(_texts_around(topic, remote), []).append(topic)
    name = F.col("topic")
    chosen = around.pop(None, [])
    (common, _), *others = sorted(around.items(), key=lambda item: -len(item[1])) or [
        (("", ""), [])
    ]
    renamed = _between(common, name)
    for texts, topics in others:
        renamed = F.when(name.isin(topics), _between(texts, name)).otherwise(renamed)
    for topic in chosen:
        renamed = F.when(name == topic, F.lit(remote_topics[topic])).otherwise(renamed)
    return renamed


def _texts_around(topic: str, remote: str) -> tuple[str, str] | None:
    """Returns what stands before and behind *topic* in *remote*; None if it is another name."""
    before, found, behind = remote.rpartition(topic)
    return (before, behind) if found else None


def _between(texts: tuple[str, str] | None, name: Column) -> Column:
    before, behind = texts or ("", "")
    parts = [name if part is None else F.lit(part) for part in (before, None, behind) if part != ""]
    return F.concat(*parts) if len(parts) > 1 else name


def _code(partitions: Sequence[TopicPartition]) -> Column:
    """Returns a record's code, as `partition_codes` gives it."""
    first = {tp.topic: code - tp.partition for tp, code in partition_codes(partitions).items()}
    if len(first) == 1:
        return F.col("partition")
    if all(code == crc32(topic.encode()) << PARTITION_BITS for topic, code in first.items()):
        return F.shiftleft(F.crc32("topic"), PARTITION_BITS) + F.col("partition")
    (topic, code), *others = first.items()
    start = F.when(F.col("topic") == topic, code)
    for topic, code in others:
        start = start.when(F.col("topic") == topic, code)
    return start + F.col("partition")
