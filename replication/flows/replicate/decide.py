"""Decides where each partition of a plan resumes, or why it cannot. Reads both clusters only.

A topic is decided as a whole: if one of its partitions cannot resume, none of them has a position.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.match import Match, match_existing_target
from replication.flows.replicate.settle import settled_log_ends
from replication.model import TopicPartition
from replication.offsets.resume import (
    CountAhead,
    MatchTail,
    Problem,
    Resume,
    StartFresh,
    plan_positions,
)
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan

Found = Resume | CountAhead | StartFresh | Match

DELETED = frozenset({"source-missing", "target-missing"})
"""Problems of a topic that was deleted since the plan was made; the next plan knows of it."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log end offsets of both sides, by upstream partition."""

    remote: Mapping[TopicPartition, TopicPartition]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Decided:
    """What `decide` finds.

    Args:
        found: Where partitions resume.
        refused: Why continuing would lose or repeat records, by upstream partition.
        gone: Topics that were deleted on one of the clusters since the plan was made.
    """

    found: dict[TopicPartition, Found]
    refused: dict[TopicPartition, str]
    gone: frozenset[str]


def settled_ends(context: FlowContext, plan: TopicPlan) -> LogEnds:
    """The log ends of *plan*'s partitions once nothing of the flow is in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = _copies(plan)
    ends = settled_log_ends(
        context.target, list(copies.values()), context.spark, context.config.flow
    )
    return _log_ends(context, copies, ends)


def find_problems(
    context: FlowContext, plan: TopicPlan, anchors: Mapping[TopicPartition, Anchor]
) -> dict[TopicPartition, str]:
    """Why partitions of *plan*, which no query replicates now, cannot resume safely.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = _copies(plan)
    log_ends = _log_ends(context, copies, context.target.log_ends(copies.values()))
    return decide(context, plan, anchors, log_ends).refused


def decide(
    context: FlowContext,
    plan: TopicPlan,
    anchors: Mapping[TopicPartition, Anchor],
    log_ends: LogEnds,
) -> Decided:
    """Decides where the partitions of *plan* resume.

    Args:
        context: The flow.
        plan: Its topics.
        anchors: The last pair of equal positions of each partition in the offset map.
        log_ends: Of the plan's partitions.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in plan.partitions if tp in anchors},
        log_ends.target_ends,
        context.source.earliest(plan.partitions),
        log_ends.source_ends,
        reset=config.auto_offset_reset,
    )
    problems = {tp: found for tp, found in decisions.items() if isinstance(found, Problem)}
    gone = {tp.topic for tp, problem in problems.items() if problem.kind in DELETED}
    refused = {tp: problem.text for tp, problem in problems.items()}
    refused |= _recreated(context, plan, anchors)
    found: dict[TopicPartition, Found] = {}
    for tp, decision in decisions.items():
        if isinstance(decision, MatchTail) and tp.topic not in gone | topics_of(refused):
            try:
                found[tp] = match_existing_target(
                    context, tp, log_ends.remote[tp], decision.position
                )
            except GuardError as error:
                refused[tp] = str(error)
        elif not isinstance(decision, (MatchTail, Problem)):
            found[tp] = decision
    left_out = gone | topics_of(refused)
    return Decided(
        {tp: at for tp, at in found.items() if tp.topic not in left_out},
        {tp: text for tp, text in refused.items() if tp.topic not in gone},
        frozenset(gone),
    )


def topics_of(partitions: Collection[TopicPartition]) -> set[str]:
    """The topics of *partitions*."""
    return {tp.topic for tp in partitions}


def _copies(plan: TopicPlan) -> dict[TopicPartition, TopicPartition]:
    return {tp: TopicPartition(plan.topics[tp.topic], tp.partition) for tp in plan.partitions}


def _log_ends(
    context: FlowContext,
    copies: Mapping[TopicPartition, TopicPartition],
    ends: Mapping[TopicPartition, int],
) -> LogEnds:
    return LogEnds(
        copies,
        context.source.log_ends(copies, context.config.isolation),
        {tp: ends[copy] for tp, copy in copies.items() if copy in ends},
    )


def _recreated(
    context: FlowContext, plan: TopicPlan, anchors: Mapping[TopicPartition, Anchor]
) -> dict[TopicPartition, str]:
    """The partitions of a new topic id: the stored offsets belong to the deleted topic."""
    return {
        tp: (
            f"topic {tp.topic} on cluster {context.config.flow.source} was deleted and created "
            f"again (id {anchors[tp].topic_id}, now {plan.source_ids[tp.topic]}), and the offset "
            f"map ends at offset {anchors[tp].position.upstream} of the deleted topic"
        )
        for tp in plan.partitions
        if tp in anchors and anchors[tp].topic_id != plan.source_ids[tp.topic]
    }
