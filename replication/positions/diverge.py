"""Finds how far a log that was truncated still has the records that the offset map states.

An unclean leader election cuts the end off a log, and other records take the offsets. Up to the
cut, each record of the source equals its copy; after it, none does. So a binary search finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from replication.kafka.api import KafkaRecord
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.fingerprint import Fingerprint
from replication.offsets.guard import Refusal, with_map
from replication.offsets.map import Exact, OffsetMap, sure_offset
from replication.offsets.runs import OffsetRun
from replication.positions.originals import Originals
from replication.positions.sides import FlowSides
from replication.positions.tails import last_fingerprints
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
        mapped = max((run.tgt_until for run in runs), default=0)
        until = min(mapped, refusal.log_end) if refusal.cut is None else refusal.cut
        cut = _last_equal(copies.is_copy_equal, 0, until)
        if cut is None:  # nothing of the map can be trusted
            return replace(
                refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
            )
        return with_map(refusal, runs, cut)
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.skip)
    if cut is None:
        return refusal
    text = f"{refusal.text}; up to offset {cut} it has the records that were copied"
    return replace(refusal, text=text, replicated=cut, skip=cut, restart=cut)


def _with_shared_cut(
    copies: "_ComparedCopies", refusal: Refusal, runs: Sequence[OffsetRun]
) -> Refusal:
    cut = _last_equal(copies.is_original_equal, refusal.earliest, refusal.skip)
    at = None if cut is None else sure_offset(copies.offsets.translate(cut))
    if at is None:
        return replace(
            refusal, replicated=None, restart=refusal.earliest, since=None, remaining_runs=()
        )
    return with_map(refusal, runs, at)


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
        return copy_rule(self.context.config, [self.tp.topic])

    def is_original_equal(self, until: int) -> bool | None:
        """Returns whether the source's last record before *until* equals its copy on the target."""
        original = self._original((0, until))
        if original is None:
            return True
        at = sure_offset(self.offsets.translate(original.offset))
        if at is None:
            return None
        target = self.context.config.target.consumer, self.remote
        copies = read_records(*target, at, at + 1, "read_uncommitted")
        return original.equals(self.rule.copy(copies[0])) if copies else None

    def is_copy_equal(self, until: int) -> bool | None:
        """Returns whether the target's last record before *until* equals its original."""
        target = self.context.config.target.consumer, self.remote
        copy = _last_record(*target, until)
        if copy is None:
            return True
        at = self.offsets.translate_back(copy.offset)
        if not isinstance(at, Exact):
            return None
        span = at.offset, at.offset + 1
        if (original := self._original(span)) is not None:
            return original.equals(self.rule.copy(copy))
        source = self.context.config.source.consumer, self.tp
        return False if read_records(*source, *span, self.context.config.isolation) else None

    def _original(self, span: tuple[int, int]) -> Fingerprint | None:
        """Returns the last record of *span* that is copied, None if there is none."""
        source, tp = self.context.source, self.tp
        first = source.earliest([tp]).get(tp, 0)
        end = source.log_ends([tp], self.context.config.isolation).get(tp, 0)
        held = max(span[0], first), min(span[1], end)
        if held[0] >= held[1]:
            return None
        with Originals(self.context, self.rule) as originals:
            found = last_fingerprints(originals, {tp: held}, {tp: 1})[tp]
        return found[-1] if found else None


def _last_record(
    consumer: Mapping[str, str], remote: TopicPartition, until: int
) -> KafkaRecord | None:
    """Returns the last record of the target before *until*; reads further back where it must."""
    width = 1
    while True:
        begin = max(0, until - width)
        found = read_records(consumer, remote, begin, until, "read_uncommitted")
        if found or not begin:
            return found[-1] if found else None
        width *= 4
