"""The first step: where partitions start, as far as log ends and topic ids decide. Pure.

The loop and the commands ask here, so that ``plan`` says what the start does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from replication.config.tree import FlowConfig
from replication.model import Chain, Position, TopicPartition
from replication.offsets.epochs import Stamps
from replication.offsets.first_start import FirstStart, starts_at_latest
from replication.offsets.guard import Refusal, read_over, recreated, with_map
from replication.offsets.live_map import TopicMap
from replication.offsets.resume import Decision, Missing, StartFresh, plan_positions, start_over
from replication.offsets.runs import OffsetRun
from replication.offsets.topic_ids import Recreated, TopicIds, Void, check_topic_ids
from replication.positions.spans import LogSpans
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan


class Stored(Protocol):
    """What the offset map says: positions, runs, and the ids of remote topics."""

    @property
    def anchors(self) -> Mapping[TopicPartition, Anchor]:
        """The newest position of each upstream partition."""

    @property
    def stamps(self) -> Mapping[TopicPartition, Stamps]:
        """Under which leaders of both sides the partitions were copied, as far as is known."""

    @property
    def remote_ids(self) -> Mapping[str, str]:
        """The ids of remote topics; topics of an earlier version of this software are absent."""

    @property
    def transforms(self) -> Mapping[str, Chain]:
        """What the newest copies of topics were transformed by; new topics are absent."""

    @property
    def first(self) -> FirstStart | None:
        """What existed on the source when the flow first started; None if it has not yet."""

    def runs(self, tp: TopicPartition) -> Sequence[OffsetRun]:
        """Returns the merged map of one upstream partition, for the newest topic id."""

    def maps(self, least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        """Returns the stored maps from offsets *least* on; some may be absent."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What `survey` decides.

    Args:
        decisions: For each partition of the plan; no policy is applied to refusals yet.
        void: Partitions whose stored position is of a deleted topic, and what was deleted.
        later: Partitions that are newer than the flow, to which ``latest`` does not apply.
    """

    decisions: Mapping[TopicPartition, Decision]
    void: Mapping[TopicPartition, str]
    later: frozenset[TopicPartition] = frozenset()


def survey(config: FlowConfig, plan: TopicPlan, stored: Stored, spans: LogSpans) -> Survey:
    """Decides where the partitions of *plan* start.

    A position of a deleted topic is not used. Where the target holds no record of the deleted
    source topic, nothing can be lost, and the partition starts over. Records that a new remote
    topic holds already say nothing of those before them: the flow's own producers, which knew the
    deleted topic, may have written them.
    """
    anchors = stored.anchors
    verdicts = {
        tp: _check_ids(plan, stored, tp, spans.target_ends.get(tp))
        for tp in plan.partitions
        if tp in anchors
    }
    void = {tp: found.text for tp, found in verdicts.items() if isinstance(found, Void)}
    new = plan.partitions if config.auto_offset_reset == "latest" else ()
    latest = starts_at_latest(stored.first, new, plan.source_ids, spans.earliest, spans.source_ends)
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in verdicts if tp not in void},
        spans.target_ends,
        spans.earliest,
        spans.source_ends,
        latest=latest,
        source_cuts=spans.source_cuts,
        target_cuts=spans.target_cuts,
        shared={tp for tp in plan.partitions if plan.is_shared(tp)},
    )
    for tp in void:
        if not isinstance(decisions[tp], Missing):
            is_same_source = anchors[tp].topic_id == plan.source_ids[tp.topic]
            upstream = start_over(
                anchors[tp].position,
                spans.earliest[tp],
                spans.source_ends[tp],
                keeps_offset=is_same_source and config.auto_offset_reset == "latest",
            )
            decisions[tp] = StartFresh(Position(upstream, spans.target_ends[tp]))
    for tp, verdict in verdicts.items():
        if isinstance(verdict, Recreated) and not isinstance(decisions[tp], Missing):
            known, log_end = anchors[tp].position, spans.target_ends[tp]
            decisions[tp] = recreated(verdict.text, known, spans.source(tp), log_end)
    for tp, decision in decisions.items():
        if isinstance(decision, Refusal) and decision.cause == "target-truncated":
            until = decision.log_end if decision.cut is None else decision.cut
            decisions[tp] = with_map(decision, stored.runs(tp), until)
        elif isinstance(decision, Refusal) and tp in spans.source_cuts:
            stamp = stored.stamps[tp].source
            if stamp is not None and decision.cause == "source-truncated":
                decisions[tp] = read_over(decision, anchors[tp].position, stamp.until)
    return Survey(decisions, void, frozenset(new) - latest.keys() - anchors.keys())


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
