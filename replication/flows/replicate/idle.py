"""Moves idle partitions over transaction markers and aborted records, which no batch reports.

A Real-Time batch ends after its last record. Where only markers follow, the position would stay
before them until retention deletes them, and then look as if records had been deleted.
"""

from replication.flows.context import FlowContext
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from replication.offsets.pending import PendingRuns
from replication.topics.topic_plan import TopicPlan

SEARCHED_OFFSETS = 10_000
"""How far one look goes; the next one continues from there."""


class IdlePartitions:
    """The partitions of one generation that stand before their log end without moving.

    Args:
        context: Of the flow.
        plan: Its topics and partitions.
    """

    def __init__(self, context: FlowContext, plan: TopicPlan) -> None:
        self._context, self._plan = context, plan
        self._seen: dict[TopicPartition, tuple[int, int]] = {}

    def skip(self, pending: PendingRuns) -> None:
        """Moves partitions that have not moved since the last call over offsets without records.

        Raises:
            ClusterError: The source does not answer.
        """
        isolation = self._context.config.isolation
        ends = self._context.source.log_ends(self._plan.partitions, isolation)
        for tp, position in pending.positions().items():
            at = position.upstream, ends.get(tp, position.upstream)
            if at[0] < at[1] and self._seen.get(tp) == at:
                until = min(at[1], at[0] + SEARCHED_OFFSETS)
                if not self._has_records(tp, at[0], until):
                    pending.skip(tp, until)
            self._seen[tp] = at

    def _has_records(self, tp: TopicPartition, start: int, until: int) -> bool:
        config = self._context.config
        return bool(read_records(config.source.consumer, tp, start, until, config.isolation))
