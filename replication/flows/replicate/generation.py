"""A generation: one run of a flow's query over a fixed set of partitions, and its progress.

Parallelism: a few Spark tasks that share the partitions, or one for each. Order: that of the
partition. Delivery: a finished batch is on the target and becomes part of the offset map; an
interrupted batch may be on the target in part, which `find_positions` finds in the target's log
before the next generation starts.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from replication.config.tree import FlowConfig
from replication.errors import StateError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import spark_errors
from replication.flows.replicate.map_writer import CheckedRuns, Looks, MapWriter, Reports
from replication.flows.replicate.schemas import schema_topics
from replication.java import JVM_GONE
from replication.kafka.cluster import Rejections
from replication.kafka.reach import MuteServers, with_answering_servers
from replication.log import Log
from replication.model import Mode, Position, TopicPartition
from replication.offsets.pending import PendingRuns, RecordRejection
from replication.offsets.runs import FinishedRuns, ProgressGapError
from replication.spark.acknowledged import is_reported
from replication.spark.causes import error_of
from replication.spark.kafka_options import (
    NEAR,
    RoundTrips,
    named,
    sharing_options,
    sink_options,
    source_options,
)
from replication.spark.mode import SHARED, Reading
from replication.spark.progress import Batch, QueryProgress, counts_column, to_target
from replication.spark.session import checkpoint_location, temporary_folder
from replication.topics.topic_plan import TopicPlan, copy_rule

log = Log(__name__)


def crossing(config: FlowConfig, plan: TopicPlan, records: DataFrame) -> DataFrame:
    """Returns the *records* of the source as they are written to the target."""
    return to_target(
        records,
        plan.topics,
        copy_rule(config, plan.topics),
        intercepted=_is_intercepted(config, records.sparkSession),
    )


def sink(
    config: FlowConfig,
    spark: SparkSession,
    limits: Mapping[str, int],
    tasks: int,
    distance: RoundTrips = NEAR,
) -> dict[str, str]:
    """Returns options for a sink that this many *tasks* write to; *limits* as in `sink_options`."""
    return sink_options(
        config.target.producer,
        config.flow,
        intercepted=_is_intercepted(config, spark),
        limits=limits.values(),
        tasks=tasks,
        distance=distance,
    )


def compressing(config: FlowConfig, plan: TopicPlan) -> FlowConfig:
    """Returns *config* with the codec of *plan*'s copies, a part of `TopicPlan.by_codec`."""
    if not plan.codecs:
        return config
    codec = next(iter(plan.codecs.values()))
    producer = {**config.target.producer, "compression.type": codec}
    return replace(config, target=replace(config.target, producer=producer))


def _is_intercepted(config: FlowConfig, spark: SparkSession) -> bool:
    return config.record_timestamps == "preserve" or is_reported(spark)


# The queries of a generation: one, or two of the same partitions that read in turn.
#
# At the end of a batch Spark's driver works for a while before the next tasks run. So that no
# record waits for it, a second query starts when the first batch is long enough: its tasks are
# ready, and take over where those of the first query hand over (``replication.source.Relay``).
# From then on each query's tasks wait while those of the other one read.

MOST_WAITING: Final = 8
"""Batches that wait for an earlier one. Its event comes when Spark has ended it, or never."""

LEAST_SECONDS: Final = 5
"""The shortest Real-Time batch that Spark takes."""

TURNS_OF_A_BATCH: Final = 3
"""A batch of two that take turns waits for one, and reads in one. The third is patience."""


@dataclass(frozen=True, slots=True)
class AlternatingQuery:
    """One of two queries that read in turn.

    Args:
        relay: The name that both have in common.
        seconds: How long a task reads at least.
        is_first: Whether it begins.
    """

    relay: str
    seconds: int
    is_first: bool

    @property
    def options(self) -> dict[str, str]:
        """What the shared source is told."""
        return {
            "relay": self.relay,
            "relayBegins": "true" if self.is_first else "false",
            "turnMs": str(1000 * self.seconds),
        }


def place_of(turn: AlternatingQuery | None) -> str:
    """Returns what tells the names of two queries apart."""
    return "" if turn is None or turn.is_first else "-in-turn"


def batch_seconds(seconds: int, turn: AlternatingQuery | None) -> int:
    """Returns how long Spark's batches are, of which *seconds* are asked for."""
    return max(LEAST_SECONDS, seconds if turn is None else seconds * TURNS_OF_A_BATCH)


class Queries:
    """The running query of a generation, or two that take turns.

    Args:
        start: Starts a query.
        copies: Each upstream partition, with the remote one whose records are counted.
        turn: Of the first query; None if it reads alone.
    """

    def __init__(
        self,
        start: Callable[[AlternatingQuery | None], StreamingQuery],
        copies: Mapping[TopicPartition, TopicPartition],
        turn: AlternatingQuery | None,
    ) -> None:
        self._start = start
        self._copies = copies
        self._turn = turn
        self._queries: list[StreamingQuery] = []
        self.progress: list[QueryProgress] = []
        self._waiting: list[Batch] = []
        self._add(turn)
        self._second_at = time.monotonic() + turn.seconds if turn else None

    def _add(self, turn: AlternatingQuery | None) -> None:
        query = self._start(turn)
        self._queries.append(query)
        self.progress.append(QueryProgress(query, query.name, self._copies))

    def start_second(self) -> None:
        """Starts the second query, when it is time for that."""
        is_due = self._second_at is not None and time.monotonic() >= self._second_at
        if self._turn and is_due and self.are_active:
            self._second_at = None
            self._add(replace(self._turn, is_first=False))

    @property
    def are_active(self) -> bool:
        """Whether all of them run."""
        return all(query.isActive for query in self._queries)

    def failures(self) -> list[StreamingQueryException]:
        """Returns the errors that ended some of them."""
        errors = [error_of(query) for query in self._queries]
        return [error for error in errors if error is not None]

    def stop(self) -> None:
        """Stops all of them, and starts no other."""
        self._second_at = None
        with ExitStack() as stops:  # one that does not stop must not leave the other one running
            for query in self._queries:
                stops.callback(query.stop)

    def finished(self, starts_now: Callable[[], Mapping[TopicPartition, int]]) -> list[Batch]:
        """Returns the batches finished since the last call, in each partition's order."""
        found = [batch for progress in self.progress for batch in progress.finished()]
        if self._turn is None or not found:
            return found
        starts = starts_now()
        due, self._waiting = in_order([*self._waiting, *found], starts)
        if len(self._waiting) > MOST_WAITING:
            batch = self._waiting[0]
            tp, start = next(iter(batch.start.items()))
            raise ProgressGapError(
                f"batch {batch.batch_id}, {tp}: starts at offset {start}, expected {starts[tp]}"
            )
        return due


def in_order(
    batches: list[Batch], starts: Mapping[TopicPartition, int]
) -> tuple[list[Batch], list[Batch]]:
    """Puts the batches of two queries into each partition's order.

    Tasks hand over one by one, and a query tells of a batch when its last task has ended.

    Args:
        batches: Each with its own start.
        starts: Where each partition's next batch starts.

    Returns:
        What continues *starts*, in order, and what has to wait for another batch. A batch may be in
        both, with some of its partitions; where it has read nothing, it lacks the partition.
    """
    at, moved = dict(starts), [_moved(batch) for batch in batches]
    due = [batch for batch in moved if not batch.start]  # of no record, so that it waits for none
    waiting = [batch for batch in moved if batch.start]
    while True:
        found = [
            {tp for tp in batch.start if batch.start[tp] <= at.get(tp, 0)} for batch in waiting
        ]
        index = next((index for index, ready in enumerate(found) if ready), None)
        if index is None:
            return due, [batch for batch in waiting if batch.start]
        batch, ready = waiting[index], found[index]
        due.append(_only(batch, ready))
        at |= due[-1].end
        waiting[index] = _only(batch, batch.start.keys() - ready)


def _moved(batch: Batch) -> Batch:
    """Returns *batch* without the partitions of which it has read nothing."""
    written = {tp for tp, count in batch.counts.items() if count}
    return _only(batch, written | {tp for tp, end in batch.end.items() if end != batch.start[tp]})


def _only(batch: Batch, partitions: set[TopicPartition]) -> Batch:
    return Batch(
        batch.batch_id,
        {tp: offset for tp, offset in batch.start.items() if tp in partitions},
        {tp: offset for tp, offset in batch.end.items() if tp in partitions},
        {tp: count for tp, count in batch.counts.items() if tp in partitions},
    )


Written = tuple[MapWriter, Looks]


class Generation:
    """A running query and its progress: made by `start`, ended by `close`.

    Attributes:
        had_news: Whether the last look has found new records or a finished batch.
        has_copied: Whether any look has.
    """

    def __init__(
        self,
        queries: Queries,
        written: Written,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        reports: Reports,
        folder: Path,
        mute: MuteServers | None = None,
    ) -> None:
        self.plan = plan
        self.number = reports.number
        self._map_writer, looks = written
        self._queries = queries
        self._folder = folder
        self._reports = reports
        self.log = log.bind(self._map_writer.flow)
        shared = {tp for tp in plan.partitions if plan.is_shared(tp)}
        self.pending = PendingRuns(positions, spacing=reports.spacing, shared=shared)
        self._checked = CheckedRuns(self.pending, looks, reports.spacing)
        self.had_news = self.has_copied = False
        self._is_quiet = False
        self._batches = (-1, -1)
        self._written_at = time.monotonic()
        self._mute = mute

    @classmethod
    def start(
        cls,
        context: FlowContext,
        written: Written,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        *,
        number: int,
        reading: Reading,
    ) -> "Generation":
        """Starts the query, in a scheduler pool of the flow's own."""
        config, spark = context.config, context.spark
        consumer = with_answering_servers(config.source.consumer)
        mute = MuteServers(config.source.consumer, consumer)
        config = replace(config, source=replace(config.source, consumer=consumer))
        config = compressing(config, plan)
        brokers, source_id = len(context.source.brokers()), context.source.cluster_id()
        distance = RoundTrips(context.source.round_trip_s(), context.target.round_trip_s())
        limits = Rejections().call(context.target.max_message_bytes, plan.topics.values())
        prefix = f"{config.flow.slug}-{number}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=temporary_folder(spark)))
        starts = {tp: positions[tp].upstream for tp in plan.partitions}
        epochs = written[0].leaders.source_epochs(starts)
        reports = Reports(context, plan, number)

        def start(turn: AlternatingQuery | None) -> StreamingQuery:
            name = f"{config.flow.slug} generation {number}{place_of(turn)}"
            setup = QuerySetup(
                name, reading, limits, brokers, distance, number, turn, epochs, source_id
            )
            lasting = batch_seconds(reports.batch_seconds, turn)
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", config.flow.slug)
            with spark_errors(config.flow):
                writer = replication_query(spark, config, plan, starts, setup)
                with reports.tagged(spark, limits, schema_topics(context, plan)):
                    checkpoint = checkpoint_location(spark, folder / f"query{place_of(turn)}")
                    return start_query(writer, reading.mode, lasting, checkpoint)

        turn = (
            AlternatingQuery(folder.name, reports.batch_seconds, True)
            if reading.takes_turns
            else None
        )
        try:
            queries = Queries(start, plan.copies, turn)
            return cls(queries, written, plan, positions, reports, folder, mute)
        except BaseException:
            reports.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def is_running(self) -> bool:
        """Whether the query still runs: it has not drained, failed or been stopped."""
        return self._is_quiet or self._queries.are_active

    @property
    def has_lost_its_servers(self) -> bool:
        """Whether the source answers at an address only that was mute when the query began."""
        return self._mute is not None and self._mute.have_taken_over()

    def failures(self) -> list[StreamingQueryException]:
        """Returns the errors that ended its queries, if there were any."""
        return self._queries.failures()

    @property
    def rejected_so_far(self) -> Mapping[TopicPartition, RecordRejection]:
        """A record that the target rejected, by upstream partition, as executors have reported."""
        return self._reports.rejected

    def rejected(self) -> Mapping[TopicPartition, RecordRejection]:
        """Returns a record that the target rejected, by upstream partition.

        Waits a moment for the reports of a query that has just failed. One that reads in turn with
        it runs still, and would let this wait for its tasks.
        """
        self.stop()
        with suppress(*JVM_GONE, ProgressGapError):  # `close` meets the same, and says so
            self._reports.finish()
            self._reports.add_to(self.pending)
        return self._reports.rejected

    def record_progress(self) -> bool:
        """Adds the batches finished since the last call; writes pending runs when that is due."""
        batches: list[Batch] = []
        self._queries.start_second()
        self._is_quiet = all(map(self._reports.is_quiet, self._queries.progress))
        if not self._is_quiet:
            batches = self._queries.finished(self.pending.batch_starts)
            self._reports.add_to(self.pending)
        for batch in batches:
            start = batch.start or self._starts_of(batch.end)
            self.pending.add_batch(batch.batch_id, start, batch.end, batch.counts)
            self._batches = (
                min(self._batches[0], batch.batch_id) if self._batches[0] >= 0 else batch.batch_id,
                max(self._batches[1], batch.batch_id),
            )
        self._reports.accept_unconfirmed(self.pending)
        self.had_news = self._note_new() or bool(batches)
        self.has_copied = self.has_copied or self.had_news
        self._checked.advance()
        if time.monotonic() - self._written_at >= self._map_writer.interval_seconds:
            self.write_pending()
        return bool(batches)

    def _starts_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        starts = self.pending.batch_starts()
        return {tp: starts[tp] for tp in partitions}

    def _note_new(self) -> bool:
        new = self.pending.take_new()
        self._reports.count(new)
        self._map_writer.record(new, self.plan.source_ids, self.pending.mirror_syncs(new))
        return bool(new)

    def write_pending(self) -> None:
        """Writes the checked runs to the offset map, if there are any."""
        runs, epochs = self._map_writer.leaders.look(self.plan, self._checked.take())
        self._map_writer.write_or_keep(
            FinishedRuns(self.number, runs, self.plan.source_ids, self._batches, epochs)
        )
        self._batches = (-1, -1)
        self._written_at = time.monotonic()

    def stop(self) -> None:
        """Stops the query; `close` follows."""
        self._is_quiet = False
        with suppress(*JVM_GONE):  # without the JVM it has stopped
            self._queries.stop()

    def close(self) -> dict[TopicPartition, Position]:
        """Stops the query, writes what it finished, and returns each partition's position.

        The records of an interrupted batch are not in these positions; see `find_positions`.
        """
        try:
            self._queries.stop()
            self._reports.finish()
            try:
                self.record_progress()
            except ProgressGapError as gap:  # `find_positions` counts what follows the gap
                self.log.warning("progress_missing", generation=self.number, text=gap)
                self._note_new()  # what had come before it is written below as well
            self._checked.finish()
            self.write_pending()
        except StateError as error:  # the map writer keeps what it could not write
            self.log.warning("map_write_failed", text=error)
        except JVM_GONE as error:
            # without the JVM nothing can be read; the next start counts in the target's log
            self.log.warning("spark_lost", generation=self.number, text=error)
        finally:
            self._map_writer.rejected |= self._reports.rejected
            self._reports.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        return dict(self._checked.positions())


@dataclass(frozen=True, slots=True)
class QuerySetup:
    """How a query runs.

    Args:
        name: Of the query and of the observed counts; unique per session.
        reading: Real-Time Mode rejects a limit of records per batch. The other modes have one,
            because a crash leaves up to one batch of records to be counted.
        limits: For each remote topic the bytes of a batch that it takes.
        epochs: Of the source's leaders that had everything before the starts, where known.
        source_id: The source's own id: nothing is read of another cluster.
    """

    name: str
    reading: Reading
    limits: Mapping[str, int]
    brokers: int = 1
    distance: RoundTrips = NEAR
    generation: int = 0
    turn: AlternatingQuery | None = None
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    source_id: str = ""


def replication_query(
    spark: SparkSession,
    config: FlowConfig,
    plan: TopicPlan,
    starts: Mapping[TopicPartition, int],
    setup: QuerySetup,
) -> DataStreamWriter:
    """Returns the query that replicates *plan*'s partitions, not yet started."""
    records = _source(spark, config, starts, setup).load()
    copies = crossing(config, plan, records)
    # Spark's generated code ends where records are counted. Before the projection, that took one
    # more copy of each record and an eighth of the CPU.
    counted = copies.observe(setup.name, counts_column(list(plan.copies.values())))
    filling = setup.reading.tasks if setup.reading.source == "spark" else len(starts)
    options = sink(config, spark, setup.limits, filling, setup.distance)
    return counted.writeStream.format("kafka").queryName(setup.name).options(**options)


def _source(
    spark: SparkSession, config: FlowConfig, starts: Mapping[TopicPartition, int], setup: QuerySetup
) -> DataStreamReader:
    consumer, reading = named(config.source.consumer, config.flow), setup.reading
    is_bounded = reading.mode != "realtime"
    if reading.source == "shared":
        options = sharing_options(
            consumer, starts, reading.tasks, setup.brokers, setup.distance, setup.epochs
        )
        options |= setup.turn.options if setup.turn else {}
        whose = {"flow": str(config.flow), "generation": f"{config.flow}#{setup.generation}"}
        options["clusterId"] = setup.source_id
        source = spark.readStream.format(SHARED).options(**options, **whose)
    else:
        options = source_options(consumer, starts, is_bounded=is_bounded, tasks=reading.tasks)
        source = spark.readStream.format("kafka").options(**options)
    return source.option("maxOffsetsPerTrigger", config.batch_max_records) if is_bounded else source


def start_query(
    writer: DataStreamWriter, mode: Mode, seconds: int, checkpoint: str
) -> StreamingQuery:
    """Starts *writer*."""
    writer = writer.option("checkpointLocation", checkpoint)
    if mode == "realtime":
        realtime: Any = writer.outputMode("update")  # Spark's own overloads lack realTime
        query: StreamingQuery = realtime.trigger(realTime=f"{seconds} seconds").start()
        return query
    if mode == "drain":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime="0 seconds").start()
