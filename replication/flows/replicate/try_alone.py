"""Copies up to a rejected record, and tries that one alone: nothing that follows it.

Behind a rejected record others are on their way already. Each try with all of them adds copies of
those to the target, so a start tries the next record of such a partition alone. Others were in the
same batch before it, and the target took none: they are copied when it has rejected that.
"""

from collections.abc import Mapping
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from replication.flows.context import FlowContext
from replication.flows.replicate.failures import QueryError, explain
from replication.flows.replicate.generation import compressing, crossing, sink
from replication.flows.replicate.map_writer import MapWriter, Reports
from replication.flows.replicate.schemas import schema_topics
from replication.java import JVM_GONE
from replication.kafka.cluster import Rejections
from replication.kafka.diagnosis import CallError
from replication.model import Position, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.offsets.runs import FinishedRuns, ProgressGapError
from replication.positions.measure import compare_ids
from replication.positions.originals import Originals
from replication.spark.acknowledged import generation_tag
from replication.spark.counting import read_windows
from replication.spark.session import task_slots
from replication.state.table_reader import Anchor
from replication.topics.topic_plan import TopicPlan, copy_rule

Windows = Mapping[TopicPartition, tuple[int, int]]
"""The first offset on the source and the end, by upstream partition."""


def try_alone(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    positions: Mapping[TopicPartition, Position],
    *,
    number: int,
) -> bool:
    """Copies the next record of partitions where the target may have rejected it before.

    No query replicates them, nor has one the *number*. What is copied to shared topics is written
    to the map, since nobody could find it afterwards.

    Returns whether there was such a record: then the *positions* have to be found again.
    """
    placed = map_writer.placed.intersection(plan.partitions)
    starts = {tp: positions[tp].upstream for tp in placed}
    windows = _next_records(context, starts) if starts else {}
    if windows:
        context.log.info("trying_single_records", partitions=len(windows))
        try:
            _copy(context, plan, map_writer, positions, windows, number)
        except QueryError as error:
            error.is_alone = True
            raise
    return bool(windows)


def copy_up_to_rejected(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    positions: Mapping[TopicPartition, Position],
    *,
    number: int,
) -> bool:
    """Copies as `try_alone` does, for the records before those that the target just rejected."""
    windows = {
        tp: (positions[tp].upstream, record.offset)
        for tp, record in map_writer.rejected.items()
        if tp in positions and positions[tp].upstream < record.offset
    }
    if windows:
        context.log.info("copying_up_to_rejected", partitions=len(windows))
        _copy(context, plan, map_writer, positions, windows, number)
    return bool(windows)


def copy_lost(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    windows: Windows,
    ends: Mapping[TopicPartition, Position],
    *,
    number: int,
) -> None:
    """Copies *windows* again, which were cut off the target; it *ends* there now."""
    context.log.warning("copying_lost", partitions=len(windows))
    positions = {tp: Position(start, ends[tp].downstream) for tp, (start, _) in windows.items()}
    _copy(context, plan, map_writer, positions, windows, number)


def _next_records(context: FlowContext, starts: Mapping[TopicPartition, int]) -> Windows:
    """Finds where the next record of each partition is that crosses, from an offset on.

    Between it and the start there may be offsets without a record, and records that came from the
    target: the rejected one was behind them. If the client cannot read on, Spark is to say why.
    """
    config = context.config
    ends = context.source.log_ends(starts, config.isolation)
    left = {tp: at for tp, at in starts.items() if at < ends.get(tp, 0)}
    rule, found = copy_rule(config, {tp.topic for tp in left}), {}
    with suppress(CallError), Originals(context, rule) as originals:
        found = originals.next({tp: (at, ends[tp]) for tp, at in left.items()})
    offsets = {tp: found[tp].offset if tp in found else at for tp, at in left.items()}
    return {tp: (at, at + 1) for tp, at in offsets.items()}


def _copy(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    positions: Mapping[TopicPartition, Position],
    windows: Windows,
    number: int,
) -> None:
    for part in plan.by_codec():
        own = {tp: window for tp, window in windows.items() if tp.topic in part.topics}
        if own:
            config, spark = compressing(context.config, part), context.spark
            limits = Rejections().call(context.target.max_message_bytes, part.topics.values())
            options = sink(config, spark, limits, min(len(own), task_slots(spark)))
            reports = Reports(context, part, number)
            shared = {tp for tp in own if part.is_shared(tp)}
            pending = PendingRuns(positions, spacing=reports.spacing, shared=shared)
            failure: Exception | None = None
            try:
                records = crossing(config, part, read_windows(spark, config.source.consumer, own))
                schemas = schema_topics(context, part)
                with generation_tag(spark, config.flow, number, limits=limits, schemas=schemas):
                    records.write.format("kafka").options(**options).save()
            except (PySparkException, Py4JJavaError) as error:
                failure = error
            finally:
                # what is missing there is copied once more
                with suppress(*JVM_GONE, ProgressGapError):
                    reports.finish()
                    reports.add_to(pending)
                reports.count(pending.take_new())
                reports.close()
            copied = {tp: runs for tp, runs in pending.take().items() if tp in shared}
            record_copied(context, part, map_writer, FinishedRuns(number, copied, part.source_ids))
            if failure is not None:
                raise explain(config.flow, failure, reports.rejected) from failure


def record_copied(
    context: FlowContext, plan: TopicPlan, map_writer: MapWriter, finished: FinishedRuns
) -> None:
    """Adds *finished* runs to the offset map, but for topics that are other ones by now."""
    if not finished.runs:
        return
    ids = compare_ids(context.source, context.target, plan)
    left = ids.changed | ids.unknown  # whether an unknown one is the same, nobody knows
    runs = {tp: runs for tp, runs in finished.runs.items() if tp.topic not in left}
    for tp, copied in runs.items():
        map_writer.anchors[tp] = Anchor(copied[-1].end, plan.source_ids[tp.topic])
    map_writer.record(runs, plan.source_ids)
    map_writer.write_or_keep(FinishedRuns(finished.generation, runs, plan.source_ids))
