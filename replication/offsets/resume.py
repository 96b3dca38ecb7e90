"""Where each partition goes on, or why it cannot: offsets in, decisions out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from replication.model import Position, Reset, TopicPartition


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on at *position*: the target's log ends where the books do."""

    position: Position


@dataclass(frozen=True, slots=True)
class CountAhead:
    """The target holds *records* beyond the books: find the source offset behind that many."""

    anchor: Position
    records: int


@dataclass(frozen=True, slots=True)
class StartFresh:
    """No books and an empty target partition: begin at *position*."""

    position: Position


@dataclass(frozen=True, slots=True)
class MatchTail:
    """The target holds records that counting cannot place: find its last ones in the source.

    ``position.downstream`` is the target's log end. ``position.upstream`` is where to go on if
    nothing but the configuration decides; the records before it are not known to have crossed.
    """

    position: Position


ProblemKind = Literal[
    "source-missing",
    "target-missing",
    "target-truncated",
    "source-truncated",
    "records-expired",
    "foreign-records",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """Going on would lose or repeat records.

    Args:
        kind: What happened.
        text: The same for an operator, with offsets.
        gone: Source offsets [from, until) that exist no more and are not known to have crossed.
    """

    kind: ProblemKind
    text: str
    gone: tuple[int, int] | None = None


Decision = Resume | CountAhead | StartFresh | MatchTail | Problem


def plan_positions(
    partitions: Iterable[TopicPartition],
    anchors: Mapping[TopicPartition, Position],
    log_ends: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    reset: Reset,
) -> dict[TopicPartition, Decision]:
    """Where each partition goes on, or why it cannot.

    Args:
        partitions: What the flow replicates. All keys are upstream partitions.
        anchors: The books' last pair of equal positions; none for a new partition.
        log_ends: Next offset to be written on the target; none where the partition is missing.
        earliest: First offset the source still holds; none where the partition is missing.
        ends: Next offset to be written on the source, or its last stable one.
        reset: Where a partition without books begins.
    """
    decisions: dict[TopicPartition, Decision] = {}
    for tp in partitions:
        if tp not in earliest or tp not in ends:
            decisions[tp] = Problem("source-missing", f"{tp} does not exist on the source")
        elif tp not in log_ends:
            text = f"the remote partition of {tp} does not exist on the target"
            decisions[tp] = Problem("target-missing", text)
        elif tp in anchors:
            decisions[tp] = _continued(anchors[tp], log_ends[tp], earliest[tp], ends[tp])
        else:
            start = Position(earliest[tp] if reset == "earliest" else ends[tp], log_ends[tp])
            decisions[tp] = MatchTail(start) if log_ends[tp] else StartFresh(start)
    return decisions


def _continued(anchor: Position, log_end: int, earliest: int, end: int) -> Decision:
    records = log_end - anchor.downstream
    reached = anchor.upstream + records  # offsets have gaps: this far at least
    problem = _problem(anchor, log_end, earliest, end)
    if problem is not None:
        return problem
    if records == 0:
        return Resume(anchor)
    if earliest > anchor.upstream:  # counting would start at records that are gone
        return MatchTail(Position(reached, log_end))
    return CountAhead(anchor, records)


def _problem(anchor: Position, log_end: int, earliest: int, end: int) -> Problem | None:
    records = log_end - anchor.downstream
    reached = anchor.upstream + records
    if records < 0:
        return Problem(
            "target-truncated",
            f"the target's log ends at offset {log_end}, the books at {anchor.downstream}: it was "
            "recreated or truncated",
        )
    if end < anchor.upstream:
        return Problem(
            "source-truncated",
            f"the source's log ends at offset {end}, the books at {anchor.upstream}: it was "
            "truncated or recreated",
        )
    if reached > end:
        return Problem(
            "foreign-records",
            f"the target holds {records} records beyond the books and the source has no more than "
            f"{end - anchor.upstream}: somebody else writes to the remote topic",
        )
    if reached < earliest:
        return Problem(
            "records-expired",
            f"the source now begins at offset {earliest}: offsets {reached} to {earliest - 1} "
            "were deleted there and are not known to have been replicated",
            gone=(reached, earliest),
        )
    return None
