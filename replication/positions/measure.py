"""Reads where the logs of both sides begin and end."""

from collections.abc import Mapping
from dataclasses import replace

from replication.model import TopicPartition
from replication.positions.replaced import compare_ids
from replication.positions.settle import InFlight, settled_log_ends
from replication.positions.sides import FlowSides
from replication.positions.spans import LogSpans
from replication.topics.topic_plan import TopicPlan


def settled_spans(
    context: FlowSides, plan: TopicPlan, in_flight: InFlight = "reported"
) -> LogSpans:
    """Waits until nothing is in flight to *plan*'s partitions; returns their spans.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if in_flight == "nothing":
        return current_spans(context, plan)
    copies = plan.copies
    settled = settled_log_ends(
        context.target,
        list(copies.values()),
        context.started_spark,
        context.config.flow,
        shared={copy for tp, copy in copies.items() if plan.is_shared(tp)},
        is_reported_only=in_flight == "reported",
    )
    return replace(_spans(context, plan, settled.ends), held=settled.held)


def current_spans(context: FlowSides, plan: TopicPlan) -> LogSpans:
    """Returns the spans of *plan*'s partitions, to which nothing of the flow can be in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return _spans(context, plan, context.target.log_ends(plan.copies.values()))


def _spans(context: FlowSides, plan: TopicPlan, ends: Mapping[TopicPartition, int]) -> LogSpans:
    copies = plan.copies
    return LogSpans(
        context.source.earliest(copies),
        context.source.log_ends(copies, context.config.isolation),
        {tp: ends[copy] for tp, copy in copies.items() if copy in ends},
        compare_ids(context.source, context.target, plan).changed,  # after the offsets
    )
