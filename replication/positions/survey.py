"""Where partitions start, as far as log ends and topic ids decide; nothing is read. Pure.

`decide` and the command ``plan`` ask here, so that the plan says what the start does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from replication.config.tree import FlowConfig
from replication.model import Position, TopicPartition
from replication.offsets.first_start import FirstStart, starts_at_latest
from replication.offsets.guard import Accepted, Jump, Refusal, recreated, rule, with_map
from replication.offsets.live_map import TopicMap
from replication.offsets.resume import Decision, Missing, StartFresh, plan_positions, start_over
from replication.offsets.runs import OffsetRun
from replication.offsets.topic_ids import Recreated, TopicIds, Void, check_topic_ids
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan

NOTHING: Mapping[TopicPartition, Accepted] = MappingProxyType({})


class Stored(Protocol):
    """What the offset map says: positions, runs, and the ids of remote topics."""

    @property
    def anchors(self) -> Mapping[TopicPartition, Anchor]:
        """The newest position of each upstream partition."""

    @property
    def remote_ids(self) -> Mapping[str, str]:
        """The ids of remote topics; topics of an earlier version of this software are absent."""

    @property
    def first(self) -> FirstStart | None:
        """What existed on the source when the flow first started; None if it has not yet."""

    def runs(self, tp: TopicPartition) -> Sequence[OffsetRun]:
        """The merged map of one upstream partition, for the newest topic id."""

    def maps(self, least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        """The stored maps as far as they concern offsets *least* and later; some may be absent."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of a plan's partitions, by upstream partition; a partition may be absent."""

    earliest: Mapping[TopicPartition, int]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Starts:
    """What `plan_starts` decides.

    Args:
        decisions: For each partition of the plan.
        void: Partitions whose stored position is of a deleted topic, and what was deleted.
        later: Partitions that are newer than the flow, to which ``latest`` does not apply.
    """

    decisions: Mapping[TopicPartition, Decision | Jump]
    void: Mapping[TopicPartition, str]
    later: frozenset[TopicPartition] = frozenset()


def plan_starts(
    config: FlowConfig,
    plan: TopicPlan,
    stored: Stored,
    offsets: Offsets,
    accepted: Mapping[TopicPartition, Accepted] = NOTHING,
) -> Starts:
    """Decides where the partitions of *plan* start.

    A position of a deleted topic is not used. Where the target holds no record of the deleted
    source topic, nothing can be lost, and the partition starts over. Records that a new remote
    topic holds already say nothing of those before them: the flow's own producers, which knew the
    deleted topic, may have written them. Where something would be lost, the flow's policy or what
    operators have *accepted* decides.
    """
    anchors = stored.anchors
    verdicts = {
        tp: _check_ids(plan, stored, tp, offsets.target_ends.get(tp))
        for tp in plan.partitions
        if tp in anchors
    }
    void = {tp: found.text for tp, found in verdicts.items() if isinstance(found, Void)}
    new = plan.partitions if config.auto_offset_reset == "latest" else ()
    latest = starts_at_latest(
        stored.first, new, plan.source_ids, offsets.earliest, offsets.source_ends
    )
    decisions: dict[TopicPartition, Decision | Jump] = dict(
        plan_positions(
            plan.partitions,
            {tp: anchors[tp].position for tp in verdicts if tp not in void},
            offsets.target_ends,
            offsets.earliest,
            offsets.source_ends,
            latest=latest,
            shared={tp for tp in plan.partitions if plan.is_shared(tp)},
        )
    )
    for tp in void:
        if not isinstance(decisions[tp], Missing):
            is_same_source = anchors[tp].topic_id == plan.source_ids[tp.topic]
            upstream = start_over(
                anchors[tp].position,
                offsets.earliest[tp],
                offsets.source_ends[tp],
                keeps_offset=is_same_source and config.auto_offset_reset == "latest",
            )
            decisions[tp] = StartFresh(Position(upstream, offsets.target_ends[tp]))
    for tp, verdict in verdicts.items():
        if isinstance(verdict, Recreated) and not isinstance(decisions[tp], Missing):
            span = offsets.earliest[tp], offsets.source_ends[tp]
            known, log_end = anchors[tp].position, offsets.target_ends[tp]
            decisions[tp] = recreated(verdict.text, known, span, log_end)
    for tp, decision in decisions.items():
        if isinstance(decision, Refusal):
            is_cut = decision.cause == "target-truncated"
            runs = stored.runs(tp) if is_cut else ()
            refusal = with_map(decision, runs, decision.log_end) if is_cut else decision
            decisions[tp] = rule_for(config, plan, tp, refusal, accepted)
    return Starts(decisions, void, frozenset(new) - latest.keys() - anchors.keys())


def rule_for(
    config: FlowConfig,
    plan: TopicPlan,
    tp: TopicPartition,
    refusal: Refusal,
    accepted: Mapping[TopicPartition, Accepted],
) -> Jump | Refusal:
    """What the flow's policy, or what operators have accepted, makes of the refusal of *tp*."""
    policy = config.guard.policy(refusal.cause, tp.topic)
    return rule(refusal, policy, accepted.get(tp), plan.source_ids[tp.topic])


def _check_ids(
    plan: TopicPlan, stored: Stored, tp: TopicPartition, log_end: int | None
) -> Void | Recreated | None:
    known, remote = stored.anchors[tp], plan.topics[tp.topic]
    return check_topic_ids(
        (tp.topic, remote),
        TopicIds(known.topic_id, stored.remote_ids.get(remote)),
        TopicIds(plan.source_ids[tp.topic], plan.remote_ids.get(remote)),
        known.position.downstream,
        log_end,
    )
