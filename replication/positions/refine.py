"""The second step: what settings and single records say of the starts that offsets decide."""

from collections.abc import Mapping

from replication.model import TopicPartition
from replication.offsets.guard import Refusal
from replication.offsets.resume import Decision
from replication.positions.diverge import CUT, with_cut
from replication.positions.expire import find_expired
from replication.positions.record_cuts import find_cuts
from replication.positions.sides import FlowSides
from replication.positions.spans import LogSpans
from replication.positions.survey import Stored
from replication.topics.topic_plan import TopicPlan


def refine(
    context: FlowSides,
    plan: TopicPlan,
    stored: Stored,
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Decision]:
    """Refuses starts that would lose records all the same, and finds where logs were cut.

    Quick: of most partitions no record is read, of the others a few.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        spans: Of the plan's partitions.
        decisions: What the survey of them has found.

    Raises:
        ClusterError: A cluster does not answer.
    """
    clusters = context.source, context.target
    refined: dict[TopicPartition, Decision] = dict(decisions)
    refined |= find_expired(context.config, plan, clusters, spans, decisions)
    by_records = find_cuts(context, plan, stored, spans, refined)
    for tp, at in refined.items():
        if isinstance(at, Refusal) and at.cause in CUT:
            pair, is_shared = (tp, plan.copy_of(tp)), plan.is_shared(tp)
            refined[tp] = with_cut(context, pair, at, stored.runs(tp), is_shared=is_shared)
    return refined | by_records
