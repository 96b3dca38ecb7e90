"""Which target offset a source offset became, and back. Pure: never asks a cluster or a table.

The offset map of a partition is a list of runs. A run says: the records of the source range
``[src_from, src_until)`` are the ``count`` records from ``tgt_from`` on, in the same order. Offsets
are positions: ``committed`` is the next offset to read, never the last one read.

Invariants, each a test of the same name:

- NEVER_PAST: an answer never jumps over a record that the target holds and the group has not read.
- EXACT_WHERE_DENSE: where a run is dense, and at both ends of every run, nothing is read again.
- HONEST_BOUND: at most ``reread`` records are read again.
- MONOTONIC: a group that reads on never moves back.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from replication.model import Position
from replication.offsets.runs import (
    OffsetRun,
    PendingRuns,
    ProgressGapError,
    anchor,
    merge_runs,
    mm2_syncs,
    next_run,
)

__all__ = [
    "Ahead",
    "Bounded",
    "Exact",
    "NoAnswer",
    "OffsetMap",
    "OffsetRun",
    "PendingRuns",
    "ProgressGapError",
    "Translation",
    "anchor",
    "merge_runs",
    "mm2_syncs",
    "next_run",
    "translate",
    "translate_back",
]

_NEVER = 1 << 63  # beyond every offset: Kafka's are signed 64-bit


@dataclass(frozen=True, slots=True)
class Exact:
    """The position on the other side. Nothing is read again, nothing is skipped."""

    offset: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """A safe position on the other side; at most *reread* records after it were read before."""

    offset: int
    reread: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """The group is beyond what the map covers: *offset* is the map's end, safe to commit.

    Up to *reread* records that arrive there later were read before.
    """

    offset: int
    reread: int


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No safe position exists: records the group has not read were never replicated.

    ``first`` is the lowest offset that has an answer, None for a map without runs.
    """

    reason: Literal["nothing replicated", "before the first run"]
    first: int | None


Translation = Exact | Bounded | Ahead | NoAnswer


@dataclass(frozen=True, slots=True)
class _Copies:
    """A source range and the newest run that holds it."""

    src_from: int
    src_until: int
    run: OffsetRun


class OffsetMap:
    """One partition's map, indexed: an answer costs two bisections.

    A source range may be in the target twice, when replication was set back and went on
    at-least-once. Its newest copy counts, since what follows the newest copy is in order up to the
    end. But while the repetition has not caught up, records beyond it exist only before it, and
    the newest copy alone would skip them if the source died now. Hence the answer is the lowest
    among the newest copies of *all* records from ``committed`` on. This is the highest position
    that loses nothing, and once the repetition has caught up it is the newest copy itself.

    Runs must be of one source topic id: a recreated topic's offsets mean other records.
    """

    def __init__(self, runs: Iterable[OffsetRun]) -> None:
        self._runs = merge_runs(runs)
        self._copies = _newest_copies(self._runs)
        self._starts = [copies.src_from for copies in self._copies]
        # prefix and suffix extremes say at once whether the map was ever set back around here
        self._tgt_reach = list(accumulate((run.tgt_until for run in self._runs), max))
        self._src_reach = list(accumulate((run.src_until for run in self._runs), max))
        self._src_later = _suffix_minima(
            [run.src_from for run in self._runs], self._runs[-1].src_until if self._runs else 0
        )
        lows = [copies.run.lowest(copies.src_from) for copies in self._copies]
        self._tgt_later = _suffix_minima(lows, self._tgt_reach[-1] if self._runs else 0)

    @property
    def runs(self) -> Sequence[OffsetRun]:
        """The merged runs, in the order of the target's log."""
        return tuple(self._runs)

    @property
    def end(self) -> Position | None:
        """Where replication stands by this map, or None for an empty one."""
        return self._runs[-1].end if self._runs else None

    def translate(self, committed: int) -> Translation:
        """Where a group that is at *committed* on the source goes on, on the target.

        Raises:
            ValueError: *committed* is negative (Kafka's -1 means "nothing committed").
        """
        _refuse_negative(committed)
        if not self._runs:
            return NoAnswer("nothing replicated", None)
        if committed < self._src_later[0]:
            return NoAnswer("before the first run", self._src_later[0])
        after = bisect_right(self._starts, committed)
        offset = self._tgt_later[after]
        if after and committed < self._copies[after - 1].src_until:
            offset = min(offset, self._copies[after - 1].run.lowest(committed))
        reread = self._reread_on_target(committed, offset)
        if committed > self._src_reach[-1]:
            return Ahead(offset, reread)
        return Bounded(offset, reread) if reread else Exact(offset)

    def _reread_on_target(self, committed: int, offset: int) -> int:
        """How many records < *committed* can be at or after *offset*, or are still to come."""
        reread = max(0, committed - self._runs[-1].src_until)
        for index in range(bisect_right(self._tgt_reach, offset), len(self._runs)):
            if self._src_later[index] >= committed:
                break
            run = self._runs[index]
            reread += max(0, run.highest(committed) - max(run.tgt_from, offset))
        return reread

    def translate_back(self, committed: int) -> Translation:
        """Where a group that is at *committed* on the target goes on, on the source (failback).

        The answer is the first source position whose record the group has not read on the target.
        At the border to a range that was skipped it is the start of that range. Target records
        that belong to no run (a foreign writer's) are counted as possibly read again. Compare the
        answer with the source's earliest offset before committing it there.

        Raises:
            ValueError: *committed* is negative.
        """
        _refuse_negative(committed)
        if not self._runs:
            return NoAnswer("nothing replicated", None)
        if committed < self._runs[0].tgt_from:
            return NoAnswer("before the first run", self._runs[0].tgt_from)
        at = bisect_right(self._tgt_reach, committed)  # runs before it are read to their end
        inside = at < len(self._runs) and (not at or self._runs[at].tgt_from < committed)
        stray = 0 if inside else committed - self._tgt_reach[at - 1]
        offset = self._first_unread(committed, at, inside=inside)
        reread = stray + self._reread_on_source(committed, offset, at)
        if committed > self._tgt_reach[-1]:
            return Ahead(offset, reread)
        return Bounded(offset, reread) if reread else Exact(offset)

    def _first_unread(self, committed: int, at: int, *, inside: bool) -> int:
        """The first source position not read, *at* being the first run not read to its end."""
        if inside:
            run = self._runs[at]
            offset = run.src_from + committed - run.tgt_from
            later = self._src_later[at + 1]
        else:
            offset = self._src_reach[at - 1]
            later = self._src_later[at]
        if later >= offset and (not at or self._src_reach[at - 1] <= offset):
            return offset
        return self._first_unread_after_setback(committed, at, offset)

    def _first_unread_after_setback(self, committed: int, at: int, offset: int) -> int:
        read: list[tuple[int, int]] = []
        for run in self._runs[:at]:
            read = _union(read, run.src_from, run.src_until)
        # replication goes on where the last run ends: what is unread from there on is still to come
        starts = [(offset, _NEVER), (self._runs[-1].src_until, _NEVER)]
        for run in self._runs[at:]:
            # of a run's first k records none is at src_from + k or later only if it is dense, but
            # every record before src_from + k is among them: that much has surely been read
            start = run.src_from + max(0, committed - run.tgt_from)
            read = _union(read, run.src_from, start)
            starts.append((start, run.src_until))
        unread = (piece for start, until in starts for piece in _uncovered(start, until, read))
        return min(start for start, _ in unread)

    def _reread_on_source(self, committed: int, offset: int, at: int) -> int:
        """How many records before *committed* can be at or after *offset* on the source."""
        reread = 0
        for index in range(min(at, len(self._runs) - 1), -1, -1):
            if self._src_reach[index] <= offset:
                break
            run = self._runs[index]
            read = min(run.count, max(0, committed - run.tgt_from))
            until = run.src_until - (run.count - read)
            reread += min(read, max(0, until - max(offset, run.src_from)))
        return reread


def translate(runs: Iterable[OffsetRun], committed: int) -> Translation:
    """`OffsetMap.translate` for a single question."""
    return OffsetMap(runs).translate(committed)


def translate_back(runs: Iterable[OffsetRun], committed: int) -> Translation:
    """`OffsetMap.translate_back` for a single question."""
    return OffsetMap(runs).translate_back(committed)


def _newest_copies(runs: Sequence[OffsetRun]) -> list[_Copies]:
    """Every replicated source range once, with the newest run that holds it, in source order."""
    newest: list[_Copies] = []
    covered: list[tuple[int, int]] = []
    for run in reversed(runs):
        pieces = _uncovered(run.src_from, run.src_until, covered)
        newest += [_Copies(start, until, run) for start, until in pieces]
        covered = _union(covered, run.src_from, run.src_until)
    return sorted(newest, key=lambda copies: copies.src_from)


def _uncovered(
    start: int, until: int, covered: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The parts of ``[start, until)`` outside *covered*, which is sorted and disjoint."""
    for low, high in covered:
        if start < low and start < until:
            yield start, min(low, until)
        start = max(start, high)
    if start < until:
        yield start, until


def _union(covered: Sequence[tuple[int, int]], start: int, until: int) -> list[tuple[int, int]]:
    """*covered* and ``[start, until)``, sorted and disjoint, touching ranges joined."""
    if start == until:
        return list(covered)
    apart = [(low, high) for low, high in covered if high < start or until < low]
    touching = [(low, high) for low, high in covered if not (high < start or until < low)]
    low = min([start, *(low for low, _ in touching)])
    high = max([until, *(high for _, high in touching)])
    return sorted([*apart, (low, high)])


def _suffix_minima(values: Sequence[int], last: int) -> list[int]:
    """For each index the least of the values from there on, *last* included."""
    return list(accumulate([last, *reversed(values)], min))[::-1]


def _refuse_negative(committed: int) -> None:
    if committed < 0:
        raise ValueError(f"a committed offset must be 0 or more, got {committed}")
