"""Reads where the logs of both sides begin and end."""

from collections.abc import Mapping
from dataclasses import replace

from replication.model import TopicPartition
from replication.positions.log_cuts import with_cuts
from replication.positions.replaced import compare_ids
from replication.positions.settle import InFlight, settled_log_ends
from replication.positions.sides import FlowSides
from replication.positions.spans import LogSpans
from replication.positions.survey import Stored
from replication.topics.topic_plan import TopicPlan


def settled_spans(
    context: FlowSides, plan: TopicPlan, known: Stored, in_flight: InFlight = "reported"
) -> LogSpans:
    """Waits until nothing is in flight to *plan*'s partitions; returns their spans.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if in_flight == "nothing":
        return current_spans(context, plan, known)
    empty = _empty_copies(plan, known)
    written = {tp: copy for tp, copy in plan.copies.items() if copy not in empty}
    settled = settled_log_ends(
        context.target,
        list(written.values()),
        context.started_spark,
        context.config.flow,
        shared={copy for tp, copy in written.items() if plan.is_shared(tp)},
        is_reported_only=in_flight == "reported",
    )
    spans = _spans(context, plan, known, {**empty, **settled.ends})
    return replace(spans, held=settled.held)


def current_spans(context: FlowSides, plan: TopicPlan, known: Stored) -> LogSpans:
    """Returns the spans of *plan*'s partitions, to which nothing of the flow can be in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    empty = _empty_copies(plan, known)
    written = [copy for copy in plan.copies.values() if copy not in empty]
    return _spans(context, plan, known, {**empty, **context.target.log_ends(written)})


def _empty_copies(plan: TopicPlan, known: Stored) -> dict[TopicPartition, int]:
    """Returns the remote partitions of *plan* that nothing was written to, with their ends.

    They are of topics that were created for it just now, and that no query of the flow has written
    before. A broker takes seconds for the logs of a thousand new partitions, and does not say where
    one ends before it has them all. What a stranger writes there is found by the first report.
    """
    return {
        copy: 0
        for tp, copy in plan.copies.items()
        if copy.topic in plan.made
        and copy.topic not in known.remote_ids
        and tp not in known.anchors
        and not plan.is_shared(tp)
    }


def _spans(
    context: FlowSides, plan: TopicPlan, known: Stored, ends: Mapping[TopicPartition, int]
) -> LogSpans:
    copies = plan.copies
    spans = LogSpans(
        context.source.earliest(copies),
        context.source.log_ends(copies, context.config.isolation),
        {tp: ends[copy] for tp, copy in copies.items() if copy in ends},
        compare_ids(context.source, context.target, plan).changed,  # after the offsets
    )
    return with_cuts(context.config, (context.source, context.target), plan, known, spans)
