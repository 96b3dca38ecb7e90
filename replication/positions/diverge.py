"""Finds how far a log that was truncated still has the records that the offset map states.

An unclean leader election cuts the end off a log, and other records take the offsets. Up to the
cut, each record of the source equals its copy; after it, none does. So a binary search finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from replication.kafka.api import KafkaRecord
from replication.kafka.reader import read_records
from replication.model import Isolation, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.guard import Refusal, with_map
from replication.offsets.map import Exact, OffsetMap
from replication.offsets.runs import OffsetRun
from replication.positions.sides import FlowSides
from replication.topics.copy_rule import copy_rule

CUT = frozenset({"source-truncated", "target-truncated"})
"""The causes that `with_cut` refines."""


def with_cut(
    context: FlowSides,
    pair: tuple[TopicPartition, TopicPartition],
    refusal: Refusal,
    runs: Sequence[OffsetRun],
    *,
    is_shared: bool = False,
) -> Refusal:
    """Refines *refusal* of a truncated log by where the cut is, if that can be found.

    Going on at the cut loses nothing that the source still has, and repeats nothing.

    Args:
        context: The flow.
        pair: The upstream partition and the remote one.
        refusal: Of the partition.
        runs: Its offset map.
        is_shared: Whether others write the remote partition as well: then only the records that the
            map has are compared.

    Raises:
        ClusterError: A cluster does not answer.
    """
    copies = _ComparedCopies(context, *pair, OffsetMap(runs))
    if refusal.cause == "target-truncated" and is_shared:
        return _with_shared_cut(copies, refusal, runs)
    if refusal.cause == "target-truncated":
        cut = _last_equal(copies.is_copy_equal, 0, refusal.log_end)
        if cut is None:  # nothing of the map can be trusted
            return replace(
                refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
            )
        return with_map(refusal, runs, cut)
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.end)
    if cut is None:
        return refusal
    text = f"{refusal.text}; up to offset {cut} it has the records that were copied"
    return replace(refusal, text=text, replicated=cut, skip=cut, restart=cut)


def _with_shared_cut(
    copies: "_ComparedCopies", refusal: Refusal, runs: Sequence[OffsetRun]
) -> Refusal:
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.skip)
    at = None if cut is None else copies.offsets.translate(cut)
    if not isinstance(at, Exact):
        return replace(
            refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
        )
    return with_map(refusal, runs, at.offset)


def _last_equal(is_equal: Callable[[int], bool | None], start: int, end: int) -> int | None:
    """Returns the last offset up to which records are equal; None if that is unknown.

    Args:
        is_equal: Whether the last record before an offset is equal; None if that is unknown.
        start: Up to there they are.
        end: The last offset that is asked for, which is the first one tried.
    """
    low, high, middle = start, end, end
    while low < high:
        found = is_equal(middle)
        if found is None:
            return None
        low, high = (middle, high) if found else (low, middle - 1)
        middle = (low + high + 1) // 2
    return low


@dataclass(frozen=True, slots=True)
class _ComparedCopies:
    """A partition, its copy and its map, compared record by record."""

    context: FlowSides
    tp: TopicPartition
    remote: TopicPartition
    offsets: OffsetMap

    @property
    def rule(self) -> CopyRule:
        """What a copy looks like."""
        return copy_rule(self.context.config)

    def is_original_equal(self, until: int) -> bool | None:
        """Returns whether the source's last record before *until* equals its copy on the target."""
        config = self.context.config
        source = config.source.consumer, self.tp
        originals = _last_records(*source, (0, until), config.isolation, self.rule.is_copied)
        if not originals:
            return True
        at = self.offsets.translate(originals[0].offset)
        if not isinstance(at, Exact):
            return None
        target = config.target.consumer, self.remote
        copies = read_records(*target, at.offset, at.offset + 1, "read_uncommitted")
        return self._is_equal(originals[0], copies[0]) if copies else None

    def is_copy_equal(self, until: int) -> bool | None:
        """Returns whether the target's last record before *until* equals its original."""
        config = self.context.config
        target = config.target.consumer, self.remote
        copies = _last_records(*target, (0, until), "read_uncommitted")
        if not copies:
            return True
        at = self.offsets.translate_back(copies[0].offset)
        if not isinstance(at, Exact):
            return None
        source = config.source.consumer, self.tp
        originals = read_records(*source, at.offset, at.offset + 1, config.isolation)
        return self._is_equal(originals[0], copies[0]) if originals else None

    def _is_equal(self, upstream: KafkaRecord, downstream: KafkaRecord) -> bool:
        original = self.rule.original(upstream)
        return original is not None and original.equals(self.rule.copy(downstream))


def _last_records(
    consumer: Mapping[str, str],
    tp: TopicPartition,
    span: tuple[int, int],
    isolation: Isolation,
    is_wanted: Callable[[KafkaRecord], bool] = lambda _record: True,
) -> list[KafkaRecord]:
    """Returns *span*'s last record that *is_wanted*, if any; reads further back if there is none.

    Args:
        consumer: Client properties of the cluster.
        tp: The partition, by its name there.
        span: First offset and end offset.
        isolation: Whether aborted and open transactions are left out.
        is_wanted: Whether a record counts.
    """
    start, until = span
    width = 1
    while True:
        begin = max(start, until - width)
        found = [*filter(is_wanted, read_records(consumer, tp, begin, until, isolation))]
        if found or begin == start:
            return found[-1:]
        width *= 4
