"""Does once for nothing what a start after a crash does, so that the first start is not the first.

Its queries load some thousand classes of Spark and of Kafka's clients, and compile their plans. The
rehearsal counts and compares the newest record of one partition, and runs the flow's query from
where the source ends; what comes meanwhile goes nowhere.
"""

import shutil
import tempfile
from functools import partial
from pathlib import Path

from replication.flows.context import FlowContext
from replication.flows.replicate.failures import spark_errors
from replication.flows.replicate.generation import QuerySetup, replication_query, start_query
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.positions.originals import Copies, Originals
from replication.positions.sides import sharing
from replication.spark.checkpoint import checkpoint_location, temporary_folder
from replication.spark.counting import RecordSpan, offsets_after, read_windows
from replication.spark.session import driver_obstacle
from replication.spark.sources import Reading, choose_source
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

Ends = dict[TopicPartition, int]


def rehearse(context: FlowContext, plan: TopicPlan, ends: Ends) -> None:
    """Rehearses the start of *context* for one partition of *plan*, one with records if there is.

    Args:
        context: The flow.
        plan: Its topics.
        ends: Where the source's partitions end.

    Raises:
        ClusterError: A cluster does not answer.
        QueryError: A query fails.
    """
    remote_ends = context.target.log_ends(plan.copies.values())
    filled = _filled(context.source, ends)
    remote_filled = _filled(context.target, remote_ends)
    copied = [tp for tp in plan.partitions if tp in filled and plan.copy_of(tp) in remote_filled]
    part = plan.only((copied or list(plan.partitions))[:1])
    with spark_errors(context.config.flow):
        for tp in copied[:1]:
            _count(context, part, tp, ends[tp], remote_ends[plan.copy_of(tp)])
        _copy(context, part, {tp: ends[tp] for tp in part.partitions if tp in ends})


def _filled(cluster: Cluster, ends: Ends) -> set[TopicPartition]:
    """Returns the partitions that hold a record, or a marker, before their *ends*."""
    begins = cluster.earliest(ends)
    return {tp for tp, end in ends.items() if tp in begins and begins[tp] < end}


def _count(
    context: FlowContext, part: TopicPlan, tp: TopicPartition, end: int, remote_end: int
) -> None:
    """Counts the newest record on the source by Spark, and reads it on both sides."""
    rule = copy_rule(context.config, part.topics)
    consumer = context.config.source.consumer
    read = partial(read_windows, context.spark, consumer, sharing=sharing(context))
    offsets_after(read, {tp: RecordSpan(end - 1, 1)}, {tp: end}, rule)
    with (
        Originals(context, rule) as source,
        Copies(context, rule, "read_uncommitted") as target,
    ):
        source.visit({tp: (end - 1, end)}, lambda _tp, _one: None)
        target.visit({part.copy_of(tp): (remote_end - 1, remote_end)}, lambda _tp, _one: None)


def _copy(context: FlowContext, part: TopicPlan, starts: Ends) -> None:
    """Runs the flow's query from *starts* on, and writes nothing."""
    config, spark = context.config, context.spark
    source = choose_source(config.record_source, driver_obstacle()).source
    setup = QuerySetup(f"{config.flow.slug} rehearsal", Reading("drain", source, 1), {})
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=temporary_folder(spark)))
    try:
        writer = replication_query(spark, config, part, starts, setup).format("noop")
        location = checkpoint_location(spark, folder)
        if starts:
            start_query(writer, "drain", 0, location).awaitTermination()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
