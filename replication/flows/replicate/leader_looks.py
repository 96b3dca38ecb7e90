"""Looks at leaders' epochs whenever the offset map is written, so that it has them.

A record is in the log of a leader that was the same before it was copied and afterwards. Where the
leader has changed in between, brokers are asked whether its log is still the one that was copied.
"""

from collections.abc import Mapping
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import Position, TopicPartition
from replication.offsets.epochs import UNKNOWN, UNSTAMPED, Epochs, Stamps, unchanged
from replication.positions.log_cuts import CopiedTo, cuts_of
from replication.topics.topic_plan import TopicPlan

ANSWER_SECONDS: Final = 4.0
"""How long a look waits: the loop stands meanwhile, and the next write looks again."""


class LeaderLooks:
    """What is known of the leaders of one flow's partitions.

    Args:
        context: The flow.
        stamps: Of the offset map.

    Attributes:
        stamps: Under which leaders the logs had all that was copied up to a position.
        cut: Partitions that have lost records while a query ran: its next start refuses them.
    """

    def __init__(self, context: FlowContext, stamps: Mapping[TopicPartition, Stamps]) -> None:
        self._context = context
        self._now: dict[TopicPartition, Epochs] = {}
        self.stamps = dict(stamps)
        self.cut = frozenset[TopicPartition]()

    def begin(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        now: Mapping[TopicPartition, Epochs],
    ) -> None:
        """Takes what a start has found: the logs of leaders of *now* have all up to *positions*."""
        self.cut -= set(plan.partitions)  # what still is refused is not among the positions
        for tp, at in positions.items():
            self._now[tp] = now.get(tp, UNKNOWN)
            self.stamps[tp] = UNSTAMPED.renewed(at, self._now[tp])

    def source_epochs(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the epochs of the source's leaders that had everything before *starts*."""
        stamps = {tp: self.stamps.get(tp, UNSTAMPED).source for tp in starts}
        return {
            tp: stamp.epoch
            for tp, stamp in stamps.items()
            if stamp is not None and stamp.until == starts[tp]
        }

    def look(
        self, plan: TopicPlan, copied: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, Epochs]:
        """Returns the epochs of leaders whose logs have all that was *copied*, where known."""
        if not copied or not self._context.outages.are_answering:
            return {}
        sides = self._context.source, self._context.target
        try:
            source, target = (
                side.leader_epochs(names, ANSWER_SECONDS)
                for side, names in zip(
                    sides, (list(copied), [plan.copy_of(tp) for tp in copied]), strict=True
                )
            )
        except ClusterError as error:
            self._context.log.info("leader_epochs_unknown", text=error)
            return {}
        found = {tp: Epochs(source.get(tp), target.get(plan.copy_of(tp))) for tp in copied}
        self.cut |= self._cut(plan, found)
        known = {
            tp: unchanged(self._now.get(tp, UNKNOWN), now)
            for tp, now in found.items()
            if tp not in self.cut
        }
        self._now |= found
        for tp, epochs in known.items():
            self.stamps[tp] = self.stamps.get(tp, UNSTAMPED).renewed(copied[tp], epochs)
        return known

    def _cut(
        self, plan: TopicPlan, now: Mapping[TopicPartition, Epochs]
    ) -> frozenset[TopicPartition]:
        """Returns the partitions that have lost records, by leaders that are new *now*."""
        config, found = self._context.config, set[TopicPartition]()
        sides = (
            (config.source.consumer, {tp: tp for tp in now}),
            (config.target.consumer, {tp: plan.copy_of(tp) for tp in now}),
        )
        for side, (consumer, names) in enumerate(sides):
            stamps = ((tp, self.stamps.get(tp, UNSTAMPED)[side]) for tp in now)
            copied = {tp: CopiedTo(names[tp], stamp.until, stamp) for tp, stamp in stamps if stamp}
            cuts, _ = cuts_of(consumer, copied, {tp: epochs[side] for tp, epochs in now.items()})
            found |= cuts.keys()
        if found:
            names_of_cut = ", ".join(map(str, sorted(found)))
            self._context.log.warning("logs_cut", text=names_of_cut)
        return frozenset(found)
