"""A query's finished batches, read from its progress events.

Spark's Python listener cannot keep up with micro-batches (at 37 a second it delivered 42 of 368
events in 10 s), so the buffer of recent events is polled. `keep_events` bounds it to half a minute
of the fastest query. A batch that drops out shows as a gap between batches, never as a wrong count.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, LongType

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.spark.copies import copies_of
from replication.spark.kafka_options import CARRIER, parse_offsets

# The projection of records from Spark's Kafka source to Spark's Kafka sink.
#
# `copies` decides what a copy looks like; here it gets its remote topic, and a carrier for what
# Spark's sink has no column for. Everything is a Catalyst expression, because records passing
# through Python would cost several times the CPU.

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
        before, found, behind = remote.rpartition(topic)
        around.setdefault((before, behind) if found else None, []).append(topic)
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


MOST_EVENTS = 1000
FEWEST_EVENTS = 10
MOST_OFFSETS = 500_000
"""An event holds three offsets of each partition, about 63 bytes: all events have 32 MB. A batch
of many partitions takes longer, so that fewer events still hold half a minute."""


def kept_events(partitions: int) -> int:
    """Returns how many events a query of that many partitions keeps."""
    return min(MOST_EVENTS, max(FEWEST_EVENTS, MOST_OFFSETS // max(1, partitions)))


def keep_events(spark: SparkSession, partitions: int) -> None:
    """Bounds the events that each query of *spark* keeps, a session of one flow's own.

    Spark reads the bound again for each event, so *partitions* are those of all its queries.
    """
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(kept_events(partitions)))


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch whose records the target has acknowledged: Spark flushes before it commits.

    ``start`` is empty for a query's first batch, which begins at the query's starting offsets.
    """

    batch_id: int
    start: dict[TopicPartition, int]
    end: dict[TopicPartition, int]
    counts: dict[TopicPartition, int]


class QueryProgress:
    """Returns each finished batch of *query* once, oldest first.

    Args:
        query: Replicates records.
        metric: The name of the observed counts.
        copies: Each upstream partition, with the remote one whose records are counted.

    Attributes:
        query: Java's object.
        newest: The newest event that was looked at: its batch and its time; empty before the first.
    """

    def __init__(
        self, query: StreamingQuery, metric: str, copies: Mapping[TopicPartition, TopicPartition]
    ) -> None:
        # Its public properties parse all events at each call.
        self.query: Any = query._jsq  # noqa: SLF001
        self._metric = metric
        self._copies = copies
        self.newest = ""

    def finished(self) -> list[Batch]:
        """Returns the batches finished since the last call."""
        events = [
            event
            for event in self._unseen()
            # an idle query reports under the next batch's id
            if "addBatch" in event["durationMs"] and event["sources"][0]["endOffset"]
        ]
        return [self._batch(event) for event in reversed(events)]

    def _unseen(self) -> Iterator[dict[str, Any]]:
        """Yields the events since the last call, newest first.

        An idle query adds one every ten seconds, and keeps all of them until it copies again.
        """
        seen, newest = self.newest, self.query.lastProgress()
        if newest is None or _mark(newest) == seen:
            return
        events = self.query.recentProgress()
        for index in range(len(events) - 1, -1, -1):
            mark = _mark(events[index])
            if index == len(events) - 1:
                self.newest = mark
            if mark == seen:
                return
            yield json.loads(events[index].json())

    def _batch(self, event: dict[str, Any]) -> Batch:
        source = event["sources"][0]
        # queries that take turns do not begin where they had ended
        start = (source.get("metrics") or {}).get("startingOffsets") or source["startOffset"]
        observed = event.get("observedMetrics", {}).get(self._metric) or {}
        written = counts_of(observed.get(COUNTS), tuple(self._copies.values()))
        return Batch(
            event["batchId"],
            parse_offsets(start),
            parse_offsets(source["endOffset"]),
            {tp: written[copy] for tp, copy in self._copies.items() if copy in written},
        )


def _mark(event: Any) -> str:  # noqa: ANN401 - a Java object
    return f"{event.batchId()} {event.timestamp()}"
