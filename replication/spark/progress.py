"""A query's finished batches, read from its progress events.

Spark's Python listener cannot keep up with micro-batches (at 37 a second it delivered 42 of 368
events in 10 s), so the buffer of recent events is polled. `keep_events` bounds it to half a minute
of the fastest query. A batch that drops out shows as a gap between batches, never as a wrong count.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from replication.model import TopicPartition
from replication.spark.kafka_options import parse_offsets
from replication.spark.projection import COUNTS, counts_of

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
        events = [event for event in self._unseen() if _did_run(event)]
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
        observed = event.get("observedMetrics", {}).get(self._metric) or {}
        written = counts_of(observed.get(COUNTS), tuple(self._copies.values()))
        return Batch(
            event["batchId"],
            parse_offsets(_start(source)),
            parse_offsets(source["endOffset"]),
            {tp: written[copy] for tp, copy in self._copies.items() if copy in written},
        )


def _mark(event: Any) -> str:  # noqa: ANN401 - a Java object
    return f"{event.batchId()} {event.timestamp()}"


def _did_run(event: dict[str, Any]) -> bool:
    """Returns whether the event is about a batch.

    An idle query reports under the next batch's id.
    """
    return "addBatch" in event["durationMs"] and bool(event["sources"][0]["endOffset"])


def _start(source: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as `parse_offsets` takes it
    """Returns where a batch began; queries that take turns do not begin where they had ended."""
    own = (source.get("metrics") or {}).get("startingOffsets")
    return own or source["startOffset"]
