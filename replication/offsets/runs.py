"""The offset map's runs: what a run is, how runs merge, how a finished batch becomes one. Pure.

Offsets are positions: the next offset to read or to write, never the last one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from replication.errors import GuardError
from replication.model import Position, TopicPartition
from replication.offsets.epochs import Epochs


class ProgressGapError(GuardError):
    """A finished batch does not continue the recorded progress; the text gives both offsets.

    Progress was lost, or a record was counted where none was read. Start a new generation: it
    finds the positions from the target's log.
    """


@dataclass(frozen=True, slots=True, order=True)
class OffsetRun:
    """A section of one partition: source range, first target offset, number of records written.

    A run of width zero is an *anchor*: a pair of equal positions with no record between them.
    """

    src_from: int
    src_until: int
    tgt_from: int
    count: int

    def __post_init__(self) -> None:
        if self.src_from < 0 or self.tgt_from < 0:
            raise ValueError(
                f"offsets must be 0 or more: source {self.src_from}, target {self.tgt_from}"
            )
        width = self.src_until - self.src_from
        if not 0 <= self.count <= width:
            raise ValueError(f"count must be between 0 and {width}, got {self.count}")

    def __str__(self) -> str:
        source, target = (self.src_from, self.src_until), (self.tgt_from, self.tgt_until)
        if self.is_anchor:
            return f"source offset {source[0]} at target offset {target[0]}"
        return (
            f"source offsets {source[0]} to {source[1] - 1} with {self.count} records from target "
            f"offset {target[0]} on"
        )

    @property
    def tgt_until(self) -> int:
        """The target offset after the run's last record."""
        return self.tgt_from + self.count

    @property
    def is_dense(self) -> bool:
        """Whether every source offset of the range holds a record."""
        return self.count == self.src_until - self.src_from

    @property
    def is_anchor(self) -> bool:
        """Whether this run is only a pair of equal positions."""
        return self.src_from == self.src_until

    @property
    def end(self) -> Position:
        """The positions after the run: where its successor starts on both sides."""
        return Position(self.src_until, self.tgt_until)

    def after(self, position: Position) -> "OffsetRun":
        """Returns the part of the run that lies beyond *position*, which an earlier run covers.

        Returns:
            The run itself where that part is not known, which is in a sparse run only.
        """
        past = position.downstream - self.tgt_from
        if self.tgt_until <= position.downstream and self.src_until <= position.upstream:
            return anchor(position)
        if self.is_dense and past > 0 and self.src_from + past == position.upstream:
            return OffsetRun(
                position.upstream, self.src_until, position.downstream, self.count - past
            )
        return self

    def end_from(self, border: "Border") -> "OffsetRun | None":
        """Returns the end of the run from *border* on; None if that is nothing new, or of others.

        The *border* is one of the same copies if its part is within the run on both sides.
        """
        part, upstream = border.part, border.upstream
        count = self.tgt_until - part.tgt_until
        is_inside = (
            self.src_from <= part.src_from
            and self.src_from < upstream < self.src_until
            and self.tgt_from <= part.tgt_from
            and 0 <= count <= self.src_until - upstream
        )
        if self.is_dense or not is_inside:
            return None
        return OffsetRun(upstream, self.src_until, part.tgt_until, count)

    def before_end(self, end: "OffsetRun") -> "OffsetRun | None":
        """Returns what is before *end*, if that is the end of this run; else None."""
        count, width = end.tgt_from - self.tgt_from, end.src_from - self.src_from
        if self.end != end.end or self.is_dense or end.is_anchor or not 0 <= count <= width > 0:
            return None
        return OffsetRun(self.src_from, end.src_from, self.tgt_from, count)

    def lowest(self, committed: int) -> int:
        """Returns the lowest target offset where the run's first record >= *committed* can be."""
        return max(self.tgt_from, self.tgt_until - max(0, self.src_until - committed))

    def read_until(self, read: int) -> int:
        """Returns the lowest source offset that follows the run's first *read* records.

        They certainly are before it.
        """
        return self.src_until - (self.count - read)

    def highest(self, committed: int) -> int:
        """Returns the highest target offset where the run's first record >= *committed* can be."""
        return self.tgt_from + min(self.count, max(0, committed - self.src_from))


@dataclass(frozen=True, slots=True)
class Border:
    """A pair of equal positions behind a *part* of a run, which ends at or before *upstream*.

    No record lies between the two source offsets; the target offset is where the part ends.
    """

    part: OffsetRun
    upstream: int


@dataclass(frozen=True, slots=True)
class FinishedRuns:
    """Runs to add to a flow's offset map, and where they come from.

    Args:
        generation: The generation that finished them.
        runs: By upstream partition, oldest first.
        topic_ids: The id of each upstream topic.
        batches: The first and the last Spark batch of the runs; -1 if they are of none.
        epochs: Leaders' epochs, by upstream partition; unknown for absent ones.
    """

    generation: int
    runs: Mapping[TopicPartition, Sequence[OffsetRun]]
    topic_ids: Mapping[str, str]
    batches: tuple[int, int] = (-1, -1)
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)


def anchor(position: Position) -> OffsetRun:
    """Returns the run that states one fact: the two offsets of *position* are equal positions."""
    return OffsetRun(position.upstream, position.upstream, position.downstream, 0)


def is_placed(run: OffsetRun) -> bool:
    """Returns whether *run*, a map's last one, only says where to go on behind existing copies."""
    return run.is_anchor and run.tgt_from > 0


def runs_between(start: Position, end: Position) -> list[OffsetRun]:
    """Returns what two known positions of a partition state about the records between them.

    An anchor at *end* is all where the target holds more records than the source range can have.
    """
    records = end.downstream - start.downstream
    if not 0 <= records <= end.upstream - start.upstream:
        return [anchor(end)]
    return [OffsetRun(start.upstream, end.upstream, start.downstream, records)]


def merge_runs(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """Merges a map into as few runs as possible without losing information, in target order.

    Adjacent dense runs become one, and so do adjacent runs without records: every position in
    them stays exact. Sparse runs are never joined, because each border is an exact position that
    joining would blur; one of which the end is a run as well is divided there. An anchor is dropped
    where a neighbour implies it. Duplicates count once.

    Args:
        runs: One partition's runs, in any order. Runs that start and end at the same target
            offset (anchors, runs without records) keep the given order, which must be oldest
            first.

    Raises:
        ValueError: Two runs claim the same target offsets for different records. The target was
            recreated or truncated, or had a second writer: leave out the runs that are void.
    """
    in_order = sorted(runs, key=lambda run: (run.tgt_from, run.tgt_until))
    return merge_in_order(in_order, _reject_contradiction)[0]


def merge_in_order(
    runs: Iterable[OffsetRun], check: Callable[[OffsetRun, OffsetRun], None] | None = None
) -> tuple[list[OffsetRun], list[int]]:
    """Merges *runs* in target order as `merge_runs`; tells which of them each result is made of.

    Args:
        runs: One partition's runs, sorted by first target offset, count, and age.
        check: Called with the last merged run and the next run before they are joined.

    Returns:
        The merged runs, and for each the place in *runs* of the first one it is made of: those up
        to the next place are the others.
    """
    merged: list[OffsetRun] = []
    places: list[int] = []
    for at, run in enumerate(runs):
        if check is not None and merged:
            check(merged[-1], run)
        pieces = [(run, at)]  # the next one is the last
        while pieces:
            piece, place = pieces.pop()
            newest = merged[-1] if merged else None
            if newest and (head := newest.before_end(piece)):
                merged.pop()
                pieces += [(piece, place), (head, places.pop())]
            elif newest and (head := piece.before_end(newest)):  # with the same target offsets
                pieces += [(merged.pop(), place), (head, places.pop())]
            elif newest and (joined := join_runs(newest, piece)):
                merged.pop()
                pieces.append((joined, places.pop()))
            else:
                merged.append(piece)
                places.append(place)
    return merged, places


def join_runs(run: OffsetRun, after: OffsetRun) -> OffsetRun | None:
    """Returns the one run that states what *run* and its successor *after* state, or None."""
    is_same_start = run.tgt_from == after.tgt_from and run.src_from == after.src_from
    if is_same_start and (run.is_anchor or run == after):
        return after
    if after.is_anchor and run.end == after.end:
        return run
    same_shift = run.tgt_from - run.src_from == after.tgt_from - after.src_from
    is_reached = run.src_from <= after.src_from <= run.src_until
    if same_shift and is_reached and run.count and after.count and run.is_dense and after.is_dense:
        until = max(run.src_until, after.src_until)
        return OffsetRun(run.src_from, until, run.tgt_from, until - run.src_from)
    are_empty = run.count == after.count == 0
    if are_empty and run.src_until == after.src_from and run.tgt_from == after.tgt_from:
        return OffsetRun(run.src_from, after.src_until, run.tgt_from, 0)
    return None


def coarser(run: OffsetRun, after: OffsetRun, records: int) -> OffsetRun | None:
    """Returns one run in place of two neighbours, without the border between them.

    The answers for positions in them stay safe, but up to as many records are read again as there
    are gaps.

    Returns:
        None where the two are no neighbours, are joined without loss by `join_runs`, or would hold
        more than *records* records.
    """
    is_neighbour = run.src_until == after.src_from and run.tgt_until == after.tgt_from
    if not is_neighbour or run.is_anchor or run.count + after.count > records:
        return None
    return OffsetRun(run.src_from, after.src_until, run.tgt_from, run.count + after.count)


def _reject_contradiction(run: OffsetRun, after: OffsetRun) -> None:
    shared = min(run.tgt_until, after.tgt_until) - after.tgt_from
    possible = min(run.src_until, after.src_until) - max(run.src_from, after.src_from)
    shift = run.tgt_from - run.src_from, after.tgt_from - after.src_from
    clash = run.is_dense and after.is_dense and shift[0] != shift[1]
    if shared > 0 and (clash or shared > possible):
        raise ValueError(
            f"{run} and {after} claim the same target offsets for different records; leave out "
            "the runs written before the target was recreated or truncated"
        )


def next_run(position: Position, *, src_from: int, src_until: int, count: int) -> OffsetRun:
    """Returns the run that one finished batch adds for one partition.

    Args:
        position: The partition's position before the batch, on both sides.
        src_from: The batch's start offset, from the progress event.
        src_until: The batch's end offset, exclusive.
        count: Records the batch wrote, as observed by the query.

    Raises:
        ProgressGapError: The batch does not start at *position*, or *count* does not fit its range.
    """
    if src_from != position.upstream:
        raise ProgressGapError(f"starts at offset {src_from}, expected {position.upstream}")
    if not 0 <= count <= src_until - src_from:
        raise ProgressGapError(f"wrote {count} records from the range [{src_from}, {src_until})")
    return OffsetRun(src_from, src_until, position.downstream, count)
