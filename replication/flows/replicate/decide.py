"""Decides where each partition of a plan resumes, or why it cannot. Reads both clusters only.

A topic is decided as a whole: if one of its partitions cannot resume, none of them has a position.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.match import compared_timestamps
from replication.flows.replicate.place import Existing, Match, match_existing_targets
from replication.flows.replicate.settle import settled_log_ends
from replication.flows.replicate.starts import Offsets, plan_starts
from replication.model import TopicPartition
from replication.offsets.resume import CountAhead, MatchTail, Problem, Resume, StartFresh
from replication.topics.topic_plan import TopicPlan

Found = Resume | CountAhead | StartFresh | MatchTail | Match

UNMATCHED = (
    "the last records of its remote partition were not found in it, and the remote partition has "
    "not changed since"
)

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
        void: Partitions of ``found`` whose offset map is of deleted topics, and what was deleted.
        unmatched: Target log ends of those refused ones whose last records were not found in the
            source; only a target that changes can help.
    """

    found: dict[TopicPartition, Found]
    refused: dict[TopicPartition, str]
    gone: frozenset[str]
    void: dict[TopicPartition, str]
    unmatched: dict[TopicPartition, int] = field(default_factory=dict)


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


def current_ends(context: FlowContext, plan: TopicPlan) -> LogEnds:
    """The log ends of *plan*'s partitions, to which nothing of the flow can be in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = _copies(plan)
    return _log_ends(context, copies, context.target.log_ends(copies.values()))


def find_problems(
    context: FlowContext,
    plan: TopicPlan,
    stored: MapWriter,
    unmatched: Mapping[TopicPartition, int],
) -> dict[TopicPartition, str]:
    """Why partitions of *plan*, which no query replicates now, cannot resume safely.

    Quick: records are not compared. Of a target that has not grown since they were, the answer is
    known.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        unmatched: Target log ends of partitions whose records were compared in vain.

    Raises:
        ClusterError: A cluster does not answer.
    """
    decided = _decide(context, plan, stored, current_ends(context, plan))
    return decided.refused | {
        tp: UNMATCHED
        for tp, found in decided.found.items()
        if isinstance(found, MatchTail) and unmatched.get(tp) == found.position.downstream
    }


def decide(context: FlowContext, plan: TopicPlan, stored: MapWriter, log_ends: LogEnds) -> Decided:
    """Decides where the partitions of *plan* resume.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        log_ends: Of the plan's partitions.

    Raises:
        ClusterError: A cluster does not answer.
        QueryError: A Spark job that compares records fails.
    """
    decided = _decide(context, plan, stored, log_ends)
    refused, unmatched = dict(decided.refused), {}
    tails = {tp: at.position for tp, at in decided.found.items() if isinstance(at, MatchTail)}
    timestamps = compared_timestamps(context, {log_ends.remote[tp].topic for tp in tails})
    existing = {
        tp: Existing(log_ends.remote[tp], fresh, timestamps[log_ends.remote[tp].topic])
        for tp, fresh in tails.items()
    }
    found = {tp: at for tp, at in decided.found.items() if tp not in tails}
    for tp, match in match_existing_targets(context, existing).items():
        if isinstance(match, GuardError):
            refused[tp] = str(match)
            unmatched[tp] = tails[tp].downstream
        else:
            found[tp] = match
    return _by_topic(Decided(found, refused, decided.gone, decided.void, unmatched))


def topics_of(partitions: Collection[TopicPartition]) -> set[str]:
    """The topics of *partitions*."""
    return {tp.topic for tp in partitions}


def _decide(context: FlowContext, plan: TopicPlan, stored: MapWriter, log_ends: LogEnds) -> Decided:
    """What offsets and topic ids alone decide; records still have to be compared."""
    earliest = context.source.earliest(plan.partitions)
    offsets = Offsets(earliest, log_ends.source_ends, log_ends.target_ends)
    starts = plan_starts(context.config, plan, stored, offsets)
    found: dict[TopicPartition, Found] = {}
    refused = dict(starts.recreated)
    gone = set()
    for tp, decision in starts.decisions.items():
        if not isinstance(decision, Problem):
            found[tp] = decision
            continue
        refused.setdefault(tp, decision.text)
        if decision.kind in DELETED:
            gone.add(tp.topic)
    return _by_topic(Decided(found, refused, frozenset(gone), dict(starts.void)))


def _by_topic(decided: Decided) -> Decided:
    """*decided* without what it finds for single partitions of topics that are left out."""
    left_out = decided.gone | topics_of(decided.refused)
    return replace(
        decided,
        found={tp: at for tp, at in decided.found.items() if tp.topic not in left_out},
        refused={tp: why for tp, why in decided.refused.items() if tp.topic not in decided.gone},
        void={tp: why for tp, why in decided.void.items() if tp.topic not in left_out},
    )


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
