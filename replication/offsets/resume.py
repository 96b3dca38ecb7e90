"""Decides where each partition resumes, or why it cannot. Pure.

The *anchor* is the last pair of equal positions in the offset map. Target records after it were
written by a batch that was never recorded; resuming must neither lose nor repeat them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from replication.model import Location, Position, TopicPartition
from replication.offsets.guard import Refusal, source_truncated, target_truncated

NO_OFFSETS: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume at *position*: the target's log ends where the offset map does."""

    position: Position


@dataclass(frozen=True, slots=True)
class CountAhead:
    """The target holds *records* records after *anchor*: find the source offset after as many.

    The source may hold fewer: then another producer wrote some of them.
    """

    anchor: Position
    records: int

    @property
    def log_end(self) -> int:
        """Where the target's log ends."""
        return self.anchor.downstream + self.records


@dataclass(frozen=True, slots=True)
class StartFresh:
    """No offset map and an empty target partition: start at *position*."""

    position: Position


@dataclass(frozen=True, slots=True)
class MatchTail:
    """Counting cannot place the target's records: find its last ones in the source.

    ``position.downstream`` is the target's log end. ``position.upstream`` is the start that the
    configuration alone gives; records before it are not known to be replicated.
    """

    position: Position


@dataclass(frozen=True, slots=True)
class Missing:
    """The partition was deleted on one side since it was listed.

    Args:
        side: Where.
        text: The same for an operator.
    """

    side: Location
    text: str


Decision = Resume | CountAhead | StartFresh | MatchTail | Missing | Refusal


def plan_positions(
    partitions: Iterable[TopicPartition],
    anchors: Mapping[TopicPartition, Position],
    log_ends: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    latest: Mapping[TopicPartition, int] = NO_OFFSETS,
    source_cuts: Mapping[TopicPartition, int] = NO_OFFSETS,
    target_cuts: Mapping[TopicPartition, int] = NO_OFFSETS,
    shared: Collection[TopicPartition] = (),
) -> dict[TopicPartition, Decision]:
    """Decides where each partition resumes, or why it cannot.

    Args:
        partitions: The partitions the flow replicates. All keys are upstream partitions.
        anchors: The last pair of equal positions in the offset map; none for a new partition.
        log_ends: Log end offsets of the target; none where the partition is missing.
        earliest: The source's first offsets; none where the partition is missing.
        ends: The source's log end offsets, or its last stable ones.
        latest: Where partitions without an offset map start, unless at the earliest offset.
        source_cuts: Where the source's log was cut before the anchor, as its brokers say: it may
            have grown beyond the anchor since.
        target_cuts: The same for remote partitions.
        shared: Partitions whose remote partition others write as well. The length of its log says
            nothing of this flow's records, so these resume at the anchor, and what was copied and
            not recorded is copied again.
    """
    decisions: dict[TopicPartition, Decision] = {}
    for tp in partitions:
        if tp not in earliest or tp not in ends:
            decisions[tp] = Missing("source", f"{tp} does not exist on the source")
        elif tp not in log_ends:
            text = f"the remote partition of {tp} does not exist on the target"
            decisions[tp] = Missing("target", text)
        elif tp in anchors and tp in shared:
            source = earliest[tp], ends[tp], source_cuts.get(tp)
            target = log_ends[tp], target_cuts.get(tp)
            decisions[tp] = _resume_shared(anchors[tp], source, target)
        elif tp in anchors:
            source = earliest[tp], ends[tp], source_cuts.get(tp)
            target = log_ends[tp], target_cuts.get(tp)
            decisions[tp] = _resume_from_anchor(anchors[tp], source, target)
        else:
            start = Position(latest.get(tp, earliest[tp]), log_ends[tp])
            is_empty = not log_ends[tp] or tp in shared
            decisions[tp] = StartFresh(start) if is_empty else MatchTail(start)
    return decisions


_Source = tuple[int, int, int | None]  # the first offset, the log end, and where it was cut
_Target = tuple[int, int | None]  # the log end, and where it was cut


def _resume_shared(anchor: Position, source: _Source, target: _Target) -> Decision:
    """Decides where none of the target's records after *anchor* is known to be this flow's."""
    log_end, cut = target
    own_end = min(anchor.downstream, log_end)
    refusal = _refusal(anchor, source, (own_end, cut))
    # another writer's records are at the log's end, so that is where copies go on
    return replace(refusal, log_end=log_end, since=None) if refusal else Resume(anchor)


def _resume_from_anchor(anchor: Position, source: _Source, target: _Target) -> Decision:
    (earliest, end, _), (log_end, _) = source, target
    records = log_end - anchor.downstream
    reached = min(end, anchor.upstream + records)  # at least: offsets have gaps
    refusal = _refusal(anchor, source, target)
    if refusal is not None:
        return refusal
    if records == 0:
        return Resume(anchor)
    if earliest > anchor.upstream:  # the first records to count are gone
        return MatchTail(Position(reached, log_end))
    return CountAhead(anchor, records)


def _refusal(anchor: Position, source: _Source, target: _Target) -> Refusal | None:
    (earliest, end, source_cut), (log_end, target_cut) = source, target
    records = log_end - anchor.downstream
    reached = min(end, anchor.upstream + records)
    if records < 0 or (target_cut is not None and target_cut < anchor.downstream):
        return target_truncated(anchor, (earliest, end), log_end, target_cut)
    if end < anchor.upstream or (source_cut is not None and source_cut < anchor.upstream):
        return source_truncated(anchor, (earliest, end), log_end, source_cut)
    if reached < earliest:
        return Refusal(
            "records-expired",
            f"the source now starts at offset {earliest}: offsets {reached} to {earliest - 1} "
            "were deleted there and may not have been replicated",
            earliest,
            end,
            log_end,
            replicated=reached,
            skip=earliest,
            restart=earliest,
            since=anchor,
        )
    return None


def start_over(void: Position, earliest: int, end: int, *, keeps_offset: bool) -> int:
    """Returns the source offset at which a remote partition starts that replaces a former one.

    With ``auto.offset.reset=latest`` the start must not be the log end, which is for partitions
    that the flow sees for the first time: records in between were never replicated.

    Args:
        void: The position that the offset map has for the old remote partition.
        earliest: The source's first offset.
        end: The source's log end offset.
        keeps_offset: Whether to go on after ``void.upstream`` instead of at *earliest*.
    """
    return max(earliest, min(void.upstream, end)) if keeps_offset else earliest
