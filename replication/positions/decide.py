"""Decides where each partition of a plan resumes, or why it cannot. Reads both clusters only.

A topic is decided as a whole: if one of its partitions cannot resume, none of them has a position.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from replication.errors import GuardError
from replication.log import Log
from replication.model import Position, TopicPartition
from replication.offsets.guard import Accepted, Jump, Refusal, regrown, unmatched
from replication.offsets.resume import CountAhead, Decision, MatchTail, Missing, Resume, StartFresh
from replication.positions.diverge import CUT, with_cut
from replication.positions.expire import with_expired
from replication.positions.place import Existing, Match, match_existing_targets
from replication.positions.replaced import compare_ids
from replication.positions.settle import settled_log_ends
from replication.positions.shared_cuts import find_cuts
from replication.positions.sides import FlowSides
from replication.positions.survey import Offsets, Stored, plan_starts, rule_for
from replication.positions.take_over import take_over
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)

Verdict = Resume | CountAhead | StartFresh | MatchTail | Match | Jump

UNMATCHED = (
    "the last records of its remote partition were not found in it, and the remote partition has "
    "not changed since"
)


FOREIGN = (
    "another producer writes to its remote partition, and the remote partition has not changed "
    "since it was looked at"
)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The remote partitions, and the offsets of both sides, by upstream partition.

    ``replaced`` are the upstream topics that were not those of the plan any more when the offsets
    had been read.
    """

    remote: Mapping[TopicPartition, TopicPartition]
    earliest: Mapping[TopicPartition, int]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    replaced: frozenset[str] = frozenset()


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

    found: dict[TopicPartition, Verdict]
    refused: dict[TopicPartition, Refusal]
    gone: frozenset[str]
    void: dict[TopicPartition, str]
    unmatched: dict[TopicPartition, int] = field(default_factory=dict)


def settled_ends(context: FlowSides, plan: TopicPlan) -> LogEnds:
    """The log ends of *plan*'s partitions once nothing of the flow is in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = _copies(plan)
    ends = settled_log_ends(
        context.target,
        list(copies.values()),
        context.spark,
        context.config.flow,
        shared={copy for tp, copy in copies.items() if plan.is_shared(tp)},
    )
    return _log_ends(context, plan, ends)


def current_ends(context: FlowSides, plan: TopicPlan) -> LogEnds:
    """The log ends of *plan*'s partitions, to which nothing of the flow can be in flight.

    Raises:
        ClusterError: A cluster does not answer.
    """
    return _log_ends(context, plan, context.target.log_ends(_copies(plan).values()))


def find_problems(
    context: FlowSides,
    plan: TopicPlan,
    stored: Stored,
    unmatched_ends: Mapping[TopicPartition, int],
    accepted: Mapping[TopicPartition, Accepted],
) -> dict[TopicPartition, Refusal]:
    """Why partitions of *plan*, which no query replicates now, cannot resume safely.

    Quick: hardly any record is read. Of a target that has not grown since its records were
    compared, the answer is known.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        unmatched_ends: Target log ends of partitions whose records were compared in vain.
        accepted: What operators have accepted.

    Raises:
        ClusterError: A cluster does not answer.
    """
    ends = current_ends(context, plan)
    decided = _decide(context, plan, stored, ends, accepted)
    refused = dict(decided.refused)
    for tp, found in decided.found.items():
        log_end = _compared_end(found)
        if log_end is not None and unmatched_ends.get(tp) == log_end:
            refusal = _unmatched(UNMATCHED, tp, Position(0, log_end), ends, None)
            if isinstance(found, CountAhead):
                refusal = replace(refusal, cause="foreign-records", text=FOREIGN)
            ruled = rule_for(context.config, plan, tp, refusal, accepted)
            if isinstance(ruled, Refusal):
                refused[tp] = ruled
    return refused


def decide(
    context: FlowSides,
    plan: TopicPlan,
    stored: Stored,
    log_ends: LogEnds,
    accepted: Mapping[TopicPartition, Accepted],
) -> Decided:
    """Decides where the partitions of *plan* resume.

    Args:
        context: The flow.
        plan: Its topics.
        stored: The offset map.
        log_ends: Of the plan's partitions.
        accepted: What operators have accepted.

    Raises:
        ClusterError: A cluster does not answer.
        QueryError: A Spark job that compares records fails.
    """
    decided = _decide(context, plan, stored, log_ends, accepted)
    refused, unmatched_ends = dict(decided.refused), {}
    tails = {tp: at.position for tp, at in decided.found.items() if isinstance(at, MatchTail)}
    existing = {tp: Existing(log_ends.remote[tp], fresh) for tp, fresh in tails.items()}
    found = {tp: at for tp, at in decided.found.items() if tp not in tails}
    matches = match_existing_targets(context, existing)
    unknown = {tp for tp, at in matches.items() if isinstance(at, GuardError) or at.is_emptied}
    unknown -= stored.anchors.keys() | decided.void.keys()  # copied by this mirror before
    ends = {tp: tails[tp].downstream for tp in unknown} | _unknown_of_shared(plan, decided)
    taken_over = take_over(context.config, (context.source, context.target), ends)
    for text in taken_over.warnings:
        log.warning("not_taken_over", flow=context.config.flow, text=text)
    for tp, match in {**matches, **taken_over.found}.items():
        if not isinstance(match, GuardError):
            found[tp] = match
            continue
        anchor = stored.anchors.get(tp) if tp not in decided.void else None
        since = anchor.position if anchor else None
        refusal = _unmatched(str(match), tp, tails[tp], log_ends, since)
        ruled = rule_for(context.config, plan, tp, refusal, accepted)
        if isinstance(ruled, Jump):
            found[tp] = ruled
        else:
            refused[tp] = ruled
            unmatched_ends[tp] = tails[tp].downstream
    return _by_topic(Decided(found, refused, decided.gone, decided.void, unmatched_ends))


def refuse(decided: Decided, refused: Mapping[TopicPartition, Refusal]) -> Decided:
    """*decided* without the topics of *refused*, whose records were compared in vain, too."""
    ends = {tp: refusal.log_end for tp, refusal in refused.items()}
    return _by_topic(
        replace(
            decided,
            refused={**decided.refused, **refused},
            unmatched={**decided.unmatched, **ends},
        )
    )


def topics_of(partitions: Collection[TopicPartition]) -> set[str]:
    """The topics of *partitions*."""
    return {tp.topic for tp in partitions}


def _decide(
    context: FlowSides,
    plan: TopicPlan,
    stored: Stored,
    log_ends: LogEnds,
    accepted: Mapping[TopicPartition, Accepted],
) -> Decided:
    """What offsets and topic ids decide; the records of targets are still to be compared."""
    offsets = Offsets(log_ends.earliest, log_ends.source_ends, log_ends.target_ends)
    starts = plan_starts(context.config, plan, stored, offsets, accepted)
    clusters = context.source, context.target
    starts = with_expired(context.config, plan, clusters, offsets, starts, accepted)
    decisions = dict(starts.decisions)
    resumed = {
        tp: at.position
        for tp, at in decisions.items()
        if isinstance(at, Resume) and plan.is_shared(tp)
    }
    cuts = find_cuts(
        context.config, stored, {tp: at.upstream for tp, at in resumed.items()}, log_ends.remote
    )
    for tp, text in cuts.items():
        span = log_ends.earliest[tp], log_ends.source_ends[tp]
        decisions[tp] = regrown(text, resumed[tp], span, log_ends.target_ends[tp])
    found: dict[TopicPartition, Verdict] = {}
    refused: dict[TopicPartition, Refusal] = {}
    gone = set(log_ends.replaced)
    for tp, first in decisions.items():
        decision: Decision | Jump = first
        refusal = first.refusal if isinstance(first, Jump) else first
        if isinstance(refusal, Refusal) and refusal.cause in CUT:
            pair = tp, log_ends.remote[tp]
            is_shared = plan.is_shared(tp)
            refusal = with_cut(context, pair, refusal, stored.runs(tp), is_shared=is_shared)
            decision = rule_for(context.config, plan, tp, refusal, accepted)
        if isinstance(decision, Missing):
            gone.add(tp.topic)
        elif isinstance(decision, Refusal):
            refused[tp] = decision
        else:
            found[tp] = decision
    return _by_topic(Decided(found, refused, frozenset(gone), dict(starts.void)))


def _unknown_of_shared(plan: TopicPlan, decided: Decided) -> dict[TopicPartition, int]:
    """Log ends of shared remote partitions to which another replicator may have copied before."""
    return {
        tp: at.position.downstream
        for tp, at in decided.found.items()
        if isinstance(at, StartFresh) and at.position.downstream and plan.is_shared(tp)
    }


def _compared_end(found: Verdict) -> int | None:
    """The target's log end, where records are to be compared."""
    if isinstance(found, MatchTail):
        return found.position.downstream
    return found.log_end if isinstance(found, CountAhead) else None


def _unmatched(
    text: str, tp: TopicPartition, fresh: Position, log_ends: LogEnds, since: Position | None
) -> Refusal:
    return unmatched(text, fresh, (log_ends.earliest[tp], log_ends.source_ends[tp]), since)


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
    return {tp: plan.copy_of(tp) for tp in plan.partitions}


def _log_ends(context: FlowSides, plan: TopicPlan, ends: Mapping[TopicPartition, int]) -> LogEnds:
    copies = _copies(plan)
    return LogEnds(
        copies,
        context.source.earliest(copies),
        context.source.log_ends(copies, context.config.isolation),
        {tp: ends[copy] for tp, copy in copies.items() if copy in ends},
        compare_ids(context.source, context.target, plan).changed,  # after the offsets
    )
