"""The offset map's runs: what a run is, how runs merge, how a finished batch becomes one. Pure.

Offsets are positions: the next offset to read or to write, never the last one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from replication.errors import GuardError
from replication.model import Position, TopicPartition

# Sets of offsets as sorted, disjoint ranges.
#
# A map may have thousands of ranges, so they are looked up by bisection.


def subtract(
    start: int, until: int, covered: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yields the parts of ``[start, until)`` outside *covered*, which is sorted and disjoint."""
    for at in range(max(0, bisect_right(covered, (start, inf)) - 1), len(covered)):
        low, high = covered[at]
        if start >= until or low >= until:
            break
        if start < low:
            yield start, low
        start = max(start, high)
    if start < until:
        yield start, until


def union(covered: Sequence[tuple[int, int]], start: int, until: int) -> list[tuple[int, int]]:
    """Joins *covered* and ``[start, until)``, sorted and disjoint; touching ranges become one."""
    if start == until:
        return list(covered)
    first, after = bisect_left(covered, (start,)), bisect_right(covered, (until, inf))
    if first and covered[first - 1][1] >= start:
        first -= 1
    low, high = start, until
    if first < after:
        low, high = min(low, covered[first][0]), max(high, covered[after - 1][1])
    return [*covered[:first], (low, high), *covered[after:]]


# What the epochs of partition leaders say of logs that were cut and have grown again.
#
# An unclean leader election cuts the end off a log, and other records take the offsets. Offsets
# alone do not show it once the log is as long as before. Each leader has an epoch of its own, and
# no leader ever cuts its log. So a log that had a record under one leader still has it under the
# same one; of a later leader, brokers say up to which offset its log is that of the earlier one.


class Epochs(NamedTuple):
    """The epochs of the leaders of a partition and its copy; None where nobody knows it."""

    source: int | None = None
    target: int | None = None

    @property
    def columns(self) -> Mapping[str, int | None]:
        """These epochs as columns of the offset map."""
        return {"source_epoch": self.source, "target_epoch": self.target}


class Stamp(NamedTuple):
    """The leader of an *epoch* had all that was copied before the offset *until*."""

    until: int
    epoch: int


class Stamps(NamedTuple):
    """What is known of a partition and of its copy."""

    source: Stamp | None = None
    target: Stamp | None = None

    def renewed(self, at: Position, epochs: Epochs) -> "Stamps":
        """Returns these stamps; where *epochs* are known, their leaders had all up to *at*."""
        ours, theirs = epochs
        return Stamps(
            self.source if ours is None else Stamp(at.upstream, ours),
            self.target if theirs is None else Stamp(at.downstream, theirs),
        )


UNKNOWN = Epochs()
UNSTAMPED = Stamps()

Cut = int | Literal["no", "unknown"]
"""The offset at which a log was cut, as its broker says; or that it was not, or that nobody knows.
Where nobody knows, records have to be compared."""


def is_in_doubt(stamp: Stamp | None, now: int | None) -> bool:
    """Returns whether brokers have to be asked up to where a log is that of the stamped leader.

    *now* is the epoch of today's leader; None if nobody knows it.
    """
    return stamp is not None and now is not None and now != stamp.epoch


def cut_of(at: int, stamp: Stamp | None, now: int | None, same_until: int | None) -> Cut:
    """Decides whether a log was cut before *at*.

    Args:
        at: The offset up to which it was copied by now, which may be beyond the *stamp*.
        stamp: None if nobody knows any leader.
        now: The epoch of today's leader; None if nobody knows it.
        same_until: Up to where today's log is that of the stamped leader, ``stamp.until`` at most.
            None without an answer.
    """
    if stamp is None or now is None:
        return "unknown"
    if now == stamp.epoch:
        return "no"
    if same_until is not None and same_until < stamp.until:
        return same_until
    return "no" if same_until is not None and stamp.until >= at else "unknown"


def unchanged(before: Epochs, now: Epochs) -> Epochs:
    """Returns what is known of records that were copied between two looks at leaders' epochs.

    A record is in the log of a leader that was the same before and afterwards. Where the leader has
    changed, nobody knows which one had it.
    """
    return Epochs(*(new if new == old else None for old, new in zip(before, now, strict=True)))


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


Window = tuple[int, int]
"""An offset, and the one behind the last."""


def newest_windows(
    spans: Mapping[TopicPartition, Window], records: int
) -> dict[TopicPartition, Window]:
    """Returns windows at the ends of a topic's partitions, with *records* offsets together.

    Each partition gives as many as the others, and more where others have fewer. Partitions with
    nothing in their window are left out.

    Args:
        spans: Where the log of each partition begins and ends.
        records: How many offsets are wanted.
    """
    found: dict[TopicPartition, Window] = {}
    left = records
    shortest_first = sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[0]))
    for place, (tp, (start, until)) in enumerate(shortest_first):
        share = -(-left // (len(spans) - place))
        taken = min(share, until - start)
        left -= taken
        if taken > 0:
            found[tp] = until - taken, until
    return dict(sorted(found.items()))


# How borders inside sparse ranges are given up with age, so that a map stays small.
#
# Dense runs are not touched while they are longer than the spacing: every position in them stays
# exact. Elsewhere two neighbours are joined if together they hold no more records than a 64th of
# those that came after them. A group that is *d* records behind the end reads at most ``d / 64``
# records again because of thinning, and never more than with MirrorMaker 2. A partition with *n*
# records keeps at most ``128 * ln(n / 64)`` joined runs: 2 600 after a year of 1000 records a
# second.
#
# In a remote topic that others write as well, their records lie between the runs. Nothing in a run
# says where inside it such records are, so what is joined there is left out of the map: only where
# it starts is kept, as an anchor, and the map knows of a range without runs that anything may be
# in it. Others' records count for the spacing, and the bound holds for all records of the remote
# partition.

RESOLUTION = 64
"""Runs of this share of the records after them stay apart."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A part of the map; only its two ends are still known."""

    src_from: int
    src_until: int
    tgt_from: int
    tgt_until: int


_Section = OffsetRun | _Unknown


class Replaced(NamedTuple):
    """The *runs* that replace some neighbours; the first of these stood at *place*."""

    runs: list[OffsetRun]
    place: int


def thin_runs(
    runs: Iterable[OffsetRun], mirror_syncs: Sequence[int] = (), resolution: int = RESOLUTION
) -> list[OffsetRun]:
    """Thins the map of merged *runs*, in target order: fewer borders in older sparse ranges.

    Args:
        runs: The map.
        mirror_syncs: The border after a run that holds one of these source offsets stays:
            MirrorMaker 2 sends a group that has read that record at most back to it.
        resolution: As `RESOLUTION`.
    """
    sections, _ = _joined(list(runs), mirror_syncs, resolution)
    return [run for replaced in _runs_of(sections) for run in replaced]


def compact_runs(runs: Sequence[OffsetRun]) -> list[Replaced]:
    """Computes what replaces a partition's *runs*, sorted by first target offset, count, and age.

    As `merge_runs` and then `thin_runs`, but runs that contradict each other stay as they are.
    """
    merged, merged_places = merge_in_order(runs)
    sections, places = _joined(merged, (), RESOLUTION)
    return [
        Replaced(replaced, merged_places[place])
        for replaced, place in zip(_runs_of(sections), places, strict=True)
    ]


def _joined(
    runs: Sequence[OffsetRun], mirror_syncs: Sequence[int], resolution: int
) -> tuple[list[_Section], list[int]]:
    """Returns the sections of the map, and where in *runs* each begins."""
    sections: list[_Section] = []
    places: list[int] = []
    log_end, reach = (runs[-1].tgt_until if runs else 0), -1
    for at, run in enumerate(runs):
        if sections:
            last, until = sections[-1], run.tgt_until
            spacing = (log_end - until) // resolution
            is_close = spacing > 1 and until - last.tgt_from <= spacing
            if is_close and not (mirror_syncs and _holds(last, mirror_syncs)):
                joined = _join(last, run, spacing, reach)
                if joined is not None:
                    sections[-1] = joined
                    continue
            reach = max(reach, last.src_until)
        sections.append(run)
        places.append(at)
    return sections, places


def _holds(section: _Section, sorted_offsets: Sequence[int]) -> bool:
    at = bisect_left(sorted_offsets, section.src_from)
    return at < len(sorted_offsets) and sorted_offsets[at] < section.src_until


def _join(last: _Section, run: OffsetRun, spacing: int, reach: int) -> _Section | None:
    """Joins *last* and *run*, its successor in the target's log, to a section; None to keep both.

    Nothing before *last* may *reach* into it on the source: a range without runs is only known to
    be one where the source offsets in it are new.
    """
    is_neighbour = last.src_until == run.src_from and last.tgt_until == run.tgt_from
    if is_neighbour and isinstance(last, OffsetRun):
        return coarser(last, run, spacing)
    is_ahead = last.src_until <= run.src_from and last.tgt_until <= run.tgt_from
    if is_ahead and reach <= last.src_from:
        return _Unknown(last.src_from, run.src_until, last.tgt_from, run.tgt_until)
    return None


def _runs_of(sections: Sequence[_Section]) -> Iterator[list[OffsetRun]]:
    """Yields what replaces each of *sections*."""
    for at, section in enumerate(sections):
        if isinstance(section, OffsetRun):
            yield [section]
            continue
        start = anchor(Position(section.src_from, section.tgt_from))
        after = sections[at + 1] if at + 1 < len(sections) else None
        if after is not None and _continues(section, after):
            # where the next one continues on the source, its start ends the range without runs
            yield [start]
        else:
            yield [start, anchor(Position(section.src_until, section.tgt_until))]


def _continues(section: _Section, after: _Section) -> bool:
    return after.tgt_from >= section.tgt_until and after.src_from == section.src_until
