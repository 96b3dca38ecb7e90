"""A generation: one start of a flow's query with a fixed set of partitions, and its books.

Unit of parallelism: one Spark task per source partition. Order: that of the partition. Delivery:
a finished batch is on the target and in the books; a batch that was cut may be on the target in
part, which `find_positions` reads from the target's log before the next generation starts.
"""

import logging
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.tree import FlowConfig
from replication.flows.replicate.map_writer import MapWriter
from replication.model import Mode, Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.offsets.runs import ProgressGapError
from replication.spark.kafka_options import sink_options, source_options
from replication.spark.progress import Progress
from replication.spark.projection import counts_column, to_target
from replication.topics.topic_plan import TopicPlan

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10
"""How often the books are written: costs half a CPU second, spares a crash the counting."""


class Generation:
    """A running query and its books. `close` it on every way out."""

    def __init__(
        self,
        spark: SparkSession,
        books: MapWriter,
        config: FlowConfig,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        *,
        number: int,
        mode: Mode,
    ) -> None:
        self.plan, self.number = plan, number
        self._books, self._config = books, config
        self._book = PendingRuns(positions)
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{config.flow.slug}-{number}-"))
        self._batches = (-1, -1)
        self._flushed_at = time.monotonic()
        name = f"{config.flow.slug} generation {number}"
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", config.flow.slug)
        starts = {tp: positions[tp].upstream for tp in plan.partitions}
        writer = replication_query(spark, config, plan, starts, name=name, mode=mode)
        self._query = start(writer, mode, config, self._scratch)
        self._progress = Progress(self._query, name, plan.partitions)

    @property
    def is_running(self) -> bool:
        """Whether the query goes on: not drained, not failed, not stopped."""
        return bool(self._query.isActive)

    def failure(self) -> StreamingQueryException | None:
        """Why the query ended, or None."""
        return self._query.exception()

    def record_progress(self) -> bool:
        """Records the batches finished since the last call; writes them when it is time.

        Returns:
            Whether a batch had finished.
        """
        batches = self._progress.finished()
        standing = self._book.positions() if batches else {}
        for batch in batches:
            start = batch.start or {tp: standing[tp].upstream for tp in batch.end}
            self._book.add_batch(batch.batch_id, start, batch.end, batch.counts)
            self._batches = (
                min(self._batches[0], batch.batch_id) if self._batches[0] >= 0 else batch.batch_id,
                batch.batch_id,
            )
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
        return bool(batches)

    def flush(self) -> None:
        """Writes the booked runs to the table, if there are any."""
        runs = self._book.take()
        if runs:
            self._books.write(self.number, runs, self.plan.source_ids, self._batches)
            self._batches = (-1, -1)
        self._flushed_at = time.monotonic()

    def close(self) -> dict[TopicPartition, Position]:
        """Stops the query, books what it had finished, and says where the books stand.

        The records of a batch that was cut are not in these positions; see `find_positions`.
        """
        try:
            self._query.stop()
            try:
                self.record_progress()
            except ProgressGapError as gap:  # what follows the gap is found from the target's log
                log.warning("generation %d ends with a gap: %s", self.number, gap)
            self.flush()
        except Py4JError as error:
            # the JVM is gone; what it wrote is found from the target's log at the next start
            log.warning("generation %d ends without Spark: %s", self.number, error)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return self._book.positions()


def replication_query(
    spark: SparkSession,
    config: FlowConfig,
    plan: TopicPlan,
    starts: Mapping[TopicPartition, int],
    *,
    name: str,
    mode: Mode,
) -> DataStreamWriter:
    """The query that replicates *plan*'s partitions, ready but not started.

    Args:
        spark: Its session.
        config: The flow.
        plan: Partitions and remote names.
        starts: The first offset to read, for each of the plan's partitions.
        name: Of the query and of the observed counts; unique per session.
        mode: Real-Time Mode refuses a limit of records per batch; the others need one, for what a
            crash leaves to be counted is at most a batch.
    """
    source = spark.readStream.format("kafka").options(
        **source_options(config.source.consumer, starts)
    )
    if mode != "realtime":
        source = source.option("maxOffsetsPerTrigger", config.batch_max_records)
    records = source.load().observe(name, counts_column(plan.partitions))
    crossing = to_target(records, plan.topics, config.record_timestamps)
    sink = sink_options(config.target.producer, config.flow, config.record_timestamps)
    return crossing.writeStream.format("kafka").queryName(name).options(**sink)


def start(
    writer: DataStreamWriter, mode: Mode, config: FlowConfig, scratch: Path
) -> StreamingQuery:
    """Starts *writer* in *mode*; *scratch* is Spark's own progress, worth nothing afterwards."""
    writer = writer.option("checkpointLocation", scratch.as_uri())
    if mode == "realtime":
        batch = f"{config.realtime_batch_seconds} seconds"
        realtime: Any = writer.outputMode("update")  # Spark's own overloads lack realTime
        query: StreamingQuery = realtime.trigger(realTime=batch).start()
        return query
    if mode == "drain":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime="0 seconds").start()
