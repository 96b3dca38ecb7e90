"""Looks at leaders' epochs whenever the offset map is written, so that it has them.

A record is in the log of a leader that was the same before it was copied and afterwards. Where the
leader has changed in between, brokers are asked whether its log is still the one that was copied.
Of what was copied since the last write nobody knows which leader had it. There the first record
that is a later leader's is compared with its copy.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import Position, TopicPartition
from replication.offsets.epochs import (
    UNKNOWN,
    UNSTAMPED,
    Epochs,
    Stamp,
    Stamps,
    is_in_doubt,
    unchanged,
)
from replication.offsets.runs import OffsetRun
from replication.positions.log_cuts import CopiedTo, cuts_of
from replication.positions.record_cuts import read_over
from replication.topics.topic_plan import TopicPlan

Runs = Mapping[TopicPartition, Sequence[OffsetRun]]

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

    def look(self, plan: TopicPlan, runs: Runs) -> tuple[Runs, dict[TopicPartition, Epochs]]:
        """Returns what of *runs* the map is to have, and which leaders have it, where known.

        Of what was cut, the map stays as it was before: a start must find the same after a crash.
        """
        known = self._known(plan, {tp: each[-1].end for tp, each in runs.items() if each})
        runs = {tp: each for tp, each in runs.items() if tp not in self.cut}
        doubts = {
            tp: Stamp(runs[tp][-1].src_until, stamp.epoch)
            for tp in known
            if (stamp := self.stamps.get(tp, UNSTAMPED).source)
            and is_in_doubt(stamp, self._now[tp].source)
        }
        over = read_over(self._context, plan, runs, doubts) if doubts else {}
        for tp, until in over.items():
            # the earlier leader had the last of these, and today's log parts from its before
            runs[tp], known[tp] = until, known[tp]._replace(source=doubts[tp].epoch)
        self._note_cut(over)
        for tp, epochs in known.items():
            self.stamps[tp] = self.stamps.get(tp, UNSTAMPED).renewed(runs[tp][-1].end, epochs)
        return runs, known

    def _known(
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
        self._note_cut(self._cut(plan, found))
        known = {
            tp: unchanged(self._now.get(tp, UNKNOWN), now)
            for tp, now in found.items()
            if tp not in self.cut
        }
        self._now |= found
        return known

    def _note_cut(self, partitions: Collection[TopicPartition]) -> None:
        self.cut |= set(partitions)
        if partitions:
            self._context.log.warning("logs_cut", text=", ".join(map(str, sorted(partitions))))

    def _cut(self, plan: TopicPlan, now: Mapping[TopicPartition, Epochs]) -> set[TopicPartition]:
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
        return found
