"""Finds how far a source that was truncated still has the records that were copied from it.

An unclean leader election cuts the end off a log, and other records take the offsets. Up to the
cut, each record equals its copy; after it, none does. So a binary search finds the cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replication.flows.context import FlowContext
from replication.flows.replicate.match import compared_timestamps, last_records, same
from replication.kafka.reader import read_records
from replication.model import Timestamps, TopicPartition
from replication.offsets.guard import Refusal
from replication.offsets.map import Exact, OffsetMap
from replication.offsets.runs import OffsetRun


def with_cut(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    refusal: Refusal,
    runs: Sequence[OffsetRun],
) -> Refusal:
    """*refusal* of a truncated source, refined by where the cut is, if that can be found.

    Going on at the cut loses nothing that the source still has, and repeats nothing.

    Args:
        context: The flow.
        tp: The upstream partition.
        remote: The remote partition.
        refusal: Of the partition.
        runs: Its offset map.

    Raises:
        ClusterError: A cluster does not answer.
    """
    times = compared_timestamps(context, [remote.topic])[remote.topic]
    cut = _Copies(context, tp, remote, OffsetMap(runs), times).equal_until(
        refusal.earliest, refusal.end
    )
    if cut is None:
        return refusal
    text = f"{refusal.text}; up to offset {cut} it has the records that were copied"
    return replace(refusal, text=text, replicated=cut, skip=cut, restart=cut)


@dataclass(frozen=True, slots=True)
class _Copies:
    """A partition and its copy, compared one by one."""

    context: FlowContext
    tp: TopicPartition
    remote: TopicPartition
    offsets: OffsetMap
    timestamps: Timestamps

    def equal_until(self, start: int, end: int) -> int | None:
        """The last offset up to which all records equal their copies; None if it is unknown."""
        low, high = start, end
        while low < high:
            middle = (low + high + 1) // 2
            is_equal = self._is_last_equal(start, middle)
            if is_equal is None:
                return None
            low, high = (middle, high) if is_equal else (low, middle - 1)
        return low

    def _is_last_equal(self, start: int, until: int) -> bool | None:
        """Whether the last record before *until* equals its copy; None if that one is not known."""
        config = self.context.config
        upstream = last_records(
            config.source.consumer, self.tp, (start, until), 1, config.isolation
        )
        if not upstream:
            return True
        at = self.offsets.translate(upstream[0].offset)
        if not isinstance(at, Exact):
            return None
        copies = read_records(
            config.target.consumer, self.remote, at.offset, at.offset + 1, "read_uncommitted"
        )
        return same(upstream[0], copies[0], self.timestamps) if copies else None
