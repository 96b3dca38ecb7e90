"""Where partitions start, as far as log ends and topic ids decide; nothing is read. Pure.

`decide` and the command ``plan`` ask here, so that the plan says what the start does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from replication.config.tree import FlowConfig
from replication.model import TopicPartition
from replication.offsets.resume import Decision, StartFresh, plan_positions, start_over
from replication.offsets.topic_ids import Recreated, TopicIds, Void, check_topic_ids
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan


class Stored(Protocol):
    """What the offset map says: the newest position of each partition, and remote topics' ids."""

    @property
    def anchors(self) -> Mapping[TopicPartition, Anchor]:
        """The newest position of each upstream partition."""

    @property
    def remote_ids(self) -> Mapping[str, str]:
        """The ids of remote topics; topics of an earlier version of this software are absent."""


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
        recreated: Partitions that must not start, because their topic was created again.
    """

    decisions: Mapping[TopicPartition, Decision]
    void: Mapping[TopicPartition, str]
    recreated: Mapping[TopicPartition, str]


def plan_starts(config: FlowConfig, plan: TopicPlan, stored: Stored, offsets: Offsets) -> Starts:
    """Decides where the partitions of *plan* start.

    A position of a deleted topic is not used. Where the target holds no record of the deleted
    source topic, nothing can be lost or repeated, and the partition starts over.
    """
    anchors = stored.anchors
    verdicts = {
        tp: _check_ids(plan, stored, tp, offsets.target_ends.get(tp))
        for tp in plan.partitions
        if tp in anchors
    }
    void = {tp: found.text for tp, found in verdicts.items() if isinstance(found, Void)}
    recreated = {tp: found.text for tp, found in verdicts.items() if isinstance(found, Recreated)}
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in verdicts if tp not in void},
        offsets.target_ends,
        offsets.earliest,
        offsets.source_ends,
        reset=config.auto_offset_reset,
    )
    for tp in void:
        if isinstance(decisions[tp], StartFresh):
            is_same_source = anchors[tp].topic_id == plan.source_ids[tp.topic]
            position = start_over(
                anchors[tp].position,
                offsets.earliest[tp],
                offsets.source_ends[tp],
                keeps_offset=is_same_source and config.auto_offset_reset == "latest",
            )
            decisions[tp] = StartFresh(position)
    return Starts(decisions, void, recreated)


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
