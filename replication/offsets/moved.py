"""Positions that an operator moves, of partitions that would go on by themselves. Pure.

A move is compare and set: it counts only while the partition would go on where the operator saw it.
So it is used once, and nothing that was copied meanwhile is left out or repeated by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.runs import OffsetRun, anchor, runs_between

MoveTo = int | Literal["earliest"]
"""A source offset, or the first that the source has whenever the move is used."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What an operator asks of one partition.

    Args:
        to: Where it is to go on.
        seen: Where it would have gone on then; None if it had no position yet.
        topic_id: The id of the source topic then.
    """

    to: MoveTo
    seen: Position | None
    topic_id: str

    def offset(self, earliest: int) -> int:
        """Returns the source offset that is meant where the source begins at *earliest*."""
        return earliest if self.to == "earliest" else self.to


@dataclass(frozen=True, slots=True)
class OwnPosition:
    """Where a partition would go on by itself.

    Args:
        position: Where.
        is_new: Whether it has no position yet, so that nothing of it is copied.
        runs: What the offset map lacks up to there.
    """

    position: Position
    is_new: bool = False
    runs: tuple[OffsetRun, ...] = ()

    @property
    def seen(self) -> Position | None:
        """What a move of it must have seen."""
        return None if self.is_new else self.position


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """A partition goes on at *position*, because an operator has moved it.

    Args:
        position: Where it goes on; downstream is the target's log end.
        before: Where it would have gone on.
    """

    position: Position
    before: OwnPosition

    @property
    def left_out(self) -> tuple[int, int] | None:
        """The source offsets that are not copied: first and end. None if there are none."""
        first, until = self.before.position.upstream, self.position.upstream
        return (first, until) if first < until else None

    @property
    def copied_again(self) -> tuple[int, int] | None:
        """The source offsets that are copied once more: first and end. None if there are none."""
        first, until = self.position.upstream, self.before.position.upstream
        return (first, until) if first < until and not self.before.is_new else None

    @property
    def effect(self) -> str:
        """What is left out and what is repeated, in words."""
        if span := self.left_out:
            return f"source offsets {span[0]} to {span[1] - 1} are not copied"
        if span := self.copied_again:
            return f"source offsets {span[0]} to {span[1] - 1} are copied again"
        return "nothing is left out or copied again"

    def new_runs(self) -> list[OffsetRun]:
        """Returns what the move adds to the offset map."""
        before, runs = self.before.position, list(self.before.runs)
        if self.before.is_new or before.downstream != self.position.downstream:
            return [*runs, anchor(self.position)]
        return [*runs, *runs_between(before, self.position)]

    def text(self, tp: TopicPartition) -> str:
        """Returns the whole story of *tp*, for an operator."""
        at, was = self.position, self.before.position.upstream
        return (
            f"{tp} would go on at source offset {was}. By decision (moved by an operator) it goes "
            f"on at source offset {at.upstream}, target offset {at.downstream}: {self.effect}"
        )

    def event(self, tp: TopicPartition) -> NewEvent:
        """Returns the event that says what becomes of *tp*."""
        at = self.position.upstream
        first, end = self.left_out or self.copied_again or (at, at)
        columns = {**tp._asdict(), "offset_from": first, "offset_until": end}
        return NewEvent("jumped", self.text(tp), "accept", columns, "moved")


def move(
    moving: Moving, before: OwnPosition, source: Sequence[int], log_end: int, topic_id: str
) -> MovedPosition | str | None:
    """Returns what *moving* makes of a partition, why it is of no use, or None if it is there.

    Args:
        moving: What was asked.
        before: Where the partition goes on by itself.
        source: The source's first offset and its log end.
        log_end: The target's log end.
        topic_id: The id of the source topic now.
    """
    earliest, end = source
    if moving.topic_id != topic_id:
        return "the source topic was created again since the move was asked for"
    to, at = moving.offset(earliest), before.position
    if moving.seen != before.seen:
        if to == at.upstream:
            return None  # a process that was killed has used it, and had not removed it yet
        was = "it had no position yet" if moving.seen is None else _shown(moving.seen)
        is_now = "it has none" if before.is_new else f"it is at {_shown(at)} now"
        return f"its position has moved since: when the move was asked for {was}, and {is_now}"
    if not earliest <= to <= end:
        return f"it was to go on at offset {to}, but the source has offsets {earliest} to {end} now"
    return MovedPosition(Position(to, log_end), before)


def _shown(at: Position) -> str:
    return f"source offset {at.upstream}, target offset {at.downstream}"
