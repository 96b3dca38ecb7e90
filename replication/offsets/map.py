"""Translates source offsets to target offsets, and back. Pure.

The offset map of a partition is a list of runs. A run states: the records of the source range
``[src_from, src_until)`` are the ``count`` records from ``tgt_from`` on, in the same order. Offsets
are positions: ``committed`` is the next offset to read, never the last one read.

Invariants, each tested under the same name:

- NEVER_PAST: an answer never skips a record that the target holds and the group has not read.
- EXACT_WHERE_DENSE: where a run is dense, and at both ends of every run, nothing is read again.
- HONEST_BOUND: at most ``reread`` records are read again.
- MONOTONIC: a group that reads on never moves back.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import ClassVar, Final, Literal

from replication.model import TopicPartition
from replication.offsets.runs import (
    Border,
    OffsetRun,
    join_runs,
    merge_runs,
    subtract,
    thin_runs,
    union,
)

_NEVER = 1 << 63  # beyond every offset: Kafka's are signed 64-bit


@dataclass(frozen=True, slots=True)
class Exact:
    """The position on the other side. Nothing is read again, nothing is skipped."""

    offset: int
    reread: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Bounded:
    """A safe position on the other side; at most *reread* records after it were read before.

    *never_copied* of the records that the group has not read are not there.
    """

    offset: int
    reread: int
    never_copied: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    """The group is ahead of the offset map: *offset* is the map's end, which is safe to commit.

    At most *reread* of the records that arrive there later were read before.
    """

    offset: int
    reread: int


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No safe position is known: records the group has not read are not in the offset map.

    ``first`` is the lowest offset that has an answer; None for an empty map.
    """

    reason: Literal[
        "nothing replicated", "before the first run", "topic created again", "topic not described"
    ]
    first: int | None


Translation = Exact | Bounded | Ahead | NoAnswer


def sure_offset(answer: Translation) -> int | None:
    """Returns the offset of *answer* if nothing is read again from there, whatever is missing."""
    if isinstance(answer, Exact | Bounded) and not answer.reread:
        return answer.offset
    return None


@dataclass(frozen=True, slots=True)
class _UnknownSpan(OffsetRun):
    """A hole on both sides, with at most ``count`` records of the source in it, in any place.

    Args:
        hole_until: Where the target's hole ends; it may be longer than *count*.
    """

    hole_until: int

    def lowest(self, committed: int) -> int:  # noqa: ARG002 - the same for each
        """Returns the same as for a run.

        Others' records may lie in between, so all of these may be at the end.
        """
        return self.tgt_from

    def read_until(self, read: int) -> int:  # noqa: ARG002 - the same for each
        return self.src_until


@dataclass(frozen=True, slots=True)
class _NewestCopies:
    src_from: int
    src_until: int
    run: OffsetRun


class OffsetMap:
    """One partition's map, indexed: an answer takes two bisections.

    The target may hold a source range twice, after replication was rewound and resumed
    at-least-once. The newest copy counts, because the records after it are in order up to the log
    end. But until the repetition catches up, later records exist only before it, and the newest
    copy alone would skip them if the source were lost now. So the answer is the lowest among the
    newest copies of *all* records from ``committed`` on. This is the highest position that loses
    nothing, and once the repetition has caught up it is the newest copy itself.

    All runs must belong to one source topic id: a recreated topic's offsets mean other records.
    """

    def __init__(self, runs: Iterable[OffsetRun]) -> None:
        self._runs = merge_runs(runs)
        self._spans = _with_unknown_spans(self._runs)
        self._span_starts = [span.tgt_from for span in self._spans]
        self._span_reach = list(accumulate((span.tgt_until for span in self._spans), max))
        self._span_src_reach = list(accumulate((span.src_until for span in self._spans), max))
        self._span_later = _suffix_minima(
            [span.src_from for span in self._spans], self._runs[-1].src_until if self._runs else 0
        )
        self._unknown = [span for span in self._spans if isinstance(span, _UnknownSpan)]
        self._unknown_reach = [span.hole_until for span in self._unknown]
        self._unknown_later = _suffix_minima([span.src_from for span in self._unknown], _NEVER)
        self._copies = _newest_copies(self._runs, self._unknown)
        self._starts = [copies.src_from for copies in self._copies]
        # Prefix maxima and suffix minima: they differ from a run's own ends only around a rewind.
        self._tgt_reach = list(accumulate((run.tgt_until for run in self._runs), max))
        self._src_reach = list(accumulate((run.src_until for run in self._runs), max))
        self._src_later = _suffix_minima(
            [run.src_from for run in self._runs], self._runs[-1].src_until if self._runs else 0
        )
        lows = [copies.run.lowest(copies.src_from) for copies in self._copies]
        self._tgt_later = _suffix_minima(lows, self._tgt_reach[-1] if self._runs else 0)

    @property
    def runs(self) -> tuple[OffsetRun, ...]:
        """The merged runs, in the order of the target's log."""
        return tuple(self._runs)

    @property
    def replicated_until(self) -> int:
        """The source offset up to which records are replicated; -1 for an empty map."""
        return self._src_reach[-1] if self._runs else -1

    @property
    def starts_at(self) -> int:
        """The lowest source offset that the map knows of; 0 for an empty map."""
        return self._src_later[0]

    def translate(self, committed: int, target_start: int | None = None) -> Translation:
        """Returns the target position of a group that has committed *committed* on the source.

        Args:
            committed: The offset.
            target_start: Where the target's log starts, for a group before all runs: what lies
                between that and the first run may be records that the group has not read. None
                if it is not known.

        Raises:
            ValueError: *committed* is negative (Kafka's -1 means "nothing committed").
        """
        _reject_negative(committed)
        if not self._runs:
            return NoAnswer("nothing replicated", None)
        if committed < self.starts_at:
            return self._earliest_copy(committed, target_start)
        after = bisect_right(self._starts, committed)
        offset = self._tgt_later[after]
        missing = 0
        if after and committed < self._copies[after - 1].src_until:
            copies = self._copies[after - 1]
            offset = min(offset, copies.run.lowest(committed))
            if isinstance(copies.run, _UnknownSpan):  # as many as fit may be copied
                room = copies.run.hole_until - copies.run.tgt_from
                missing = max(0, copies.src_until - committed - room)
        else:  # in a range that was skipped, up to what comes next
            follows = (one.src_from for one in self._copies[after : after + 1])
            missing = max(0, next(follows, self._src_reach[-1]) - committed)
        reread = self._reread_on_target(committed, offset)
        if committed > self._src_reach[-1]:
            return Ahead(offset, reread)
        return Bounded(offset, reread, missing) if reread or missing else Exact(offset)

    def _earliest_copy(self, committed: int, target_start: int | None) -> Translation:
        if target_start is None and self._runs[0].tgt_from > 0:
            return NoAnswer("before the first run", self.starts_at)
        start = target_start or 0  # no log starts before 0
        unknown = max(0, self._runs[0].tgt_from - start)  # records there that are in no run
        offset = start if unknown else max(start, self._tgt_later[0])
        return Bounded(offset, unknown, max(0, self.starts_at - committed - unknown))

    def border_at(self, upstream: int) -> Border | None:
        """Returns what proves a pair of equal positions at the source offset *upstream*.

        None where nothing does, and where no run is sparse, so that each pair is known anyway.
        """
        if len(self._runs) <= 1:
            return None
        until, downstream = upstream, None
        for copies in reversed(self._copies[: bisect_left(self._starts, upstream)]):
            run = copies.run
            is_known = run.src_until == until or (run.is_dense and run.src_until > until)
            if isinstance(run, _UnknownSpan) or not (is_known or run.count == 0):
                return None
            past = run.count - max(0, run.src_until - until)
            at = run.tgt_from + (past if run.count else 0)
            if run.src_until < until or downstream not in {None, at}:
                return None
            if run.count:
                part = OffsetRun(run.src_from, until, run.tgt_from, past)
                return Border(part, upstream) if past else None
            until, downstream = run.src_from, at  # no record is in it: the one before tells
        return None

    def empty_until(self, committed: int) -> int:
        """Returns up to which source offset no record follows *committed*, as far as is replicated.

        Behind the last record of a transaction its marker has an offset, which no group commits.

        Raises:
            ValueError: *committed* is negative.
        """
        answer, end = sure_offset(self.translate(committed)), self.replicated_until
        is_read = answer is not None and answer == sure_offset(self.translate(max(0, end)))
        return max(committed, end) if is_read else committed

    def _reread_on_target(self, committed: int, offset: int) -> int:
        """Returns how many records < *committed* can be at or after *offset*, or yet arrive."""
        reread = max(0, committed - self._runs[-1].src_until)
        for index in range(bisect_right(self._span_reach, offset), len(self._spans)):
            if self._span_later[index] >= committed:
                break
            run = self._spans[index]
            reread += max(0, run.highest(committed) - max(run.tgt_from, offset))
        return reread

    def translate_back(self, committed: int, source_start: int | None = None) -> Translation:
        """Returns where a group goes on at the source (failback) that committed *committed*.

        The answer is the first source position whose record the group has not read on the target.
        At the border of a skipped range it is the start of that range. Target records that belong
        to no run (another producer's) count as possibly read again. Compare the answer with the
        source's earliest offset before committing it there.

        Args:
            committed: The offset.
            source_start: Where the source's log starts, for a group before all runs; None if that
                is not known.

        Raises:
            ValueError: *committed* is negative.
        """
        _reject_negative(committed)
        if not self._runs:
            return NoAnswer("nothing replicated", None)
        if committed < self._runs[0].tgt_from:
            if source_start is None:
                return NoAnswer("before the first run", self._runs[0].tgt_from)
            first = self.starts_at
            return Bounded(min(source_start, first), max(0, first - source_start))
        at = bisect_right(self._tgt_reach, committed)  # runs before it were read to the end
        inside = at < len(self._runs) and (not at or self._runs[at].tgt_from < committed)
        stray = 0 if inside else self._stray(committed, self._tgt_reach[at - 1])
        offset = self._first_unread(committed, at, inside=inside)
        reread = stray + self._reread_on_source(committed, offset)
        if committed > self._tgt_reach[-1]:
            return Ahead(offset, reread)
        return Bounded(offset, reread) if reread else Exact(offset)

    def _first_unread(self, committed: int, at: int, *, inside: bool) -> int:
        """Returns the first unread source position; *at* is the first run not read to its end."""
        if inside:
            run = self._runs[at]
            offset = run.src_from + committed - run.tgt_from
            later = self._src_later[at + 1]
        else:
            offset = self._src_reach[at - 1]
            later = self._src_later[at]
        later = min(later, self._unknown_later[bisect_right(self._unknown_reach, committed)])
        if later >= offset and (not at or self._src_reach[at - 1] <= offset):
            return offset
        return self._first_unread_after_rewind(committed, at, self._src_reach[at - 1 + inside])

    def _first_unread_after_rewind(self, committed: int, at: int, reach: int) -> int:
        read: list[tuple[int, int]] = []
        for run in self._runs[:at]:
            read = union(read, run.src_from, run.src_until)
        # Replication resumes where the last run ends; unread records after it are yet to arrive.
        starts = [(reach, _NEVER), (self._runs[-1].src_until, _NEVER)]
        for run in self._runs[at:]:
            # The first k records of a run include every record before src_from + k. In a sparse
            # run some of them lie further on, but that much was certainly read.
            start = run.src_from + max(0, committed - run.tgt_from)
            read = union(read, run.src_from, start)
            starts.append((start, run.src_until))
        not_passed = self._unknown[bisect_right(self._unknown_reach, committed) :]
        starts += [(span.src_from, span.src_until) for span in not_passed]
        unread = (piece for start, until in starts for piece in subtract(start, until, read))
        return min(start for start, _ in unread)

    def _stray(self, committed: int, reach: int) -> int:
        """Returns how many records before *committed* are in no run or span, from *reach* on."""
        last = self._spans[bisect_left(self._span_starts, committed) - 1]
        is_known = isinstance(last, _UnknownSpan) and last.tgt_from == reach
        return 0 if is_known else committed - reach

    def _reread_on_source(self, committed: int, offset: int) -> int:
        """Returns how many records before *committed* can be at or after *offset* on the source."""
        reread = 0
        for index in range(bisect_left(self._span_starts, committed) - 1, -1, -1):
            if self._span_src_reach[index] <= offset:
                break
            span = self._spans[index]
            read = min(span.count, committed - span.tgt_from)
            reread += min(read, max(0, span.read_until(read) - max(offset, span.src_from)))
        return reread


def translate(runs: Iterable[OffsetRun], committed: int) -> Translation:
    """Translates a single offset by `OffsetMap.translate`."""
    return OffsetMap(runs).translate(committed)


def translate_back(runs: Iterable[OffsetRun], committed: int) -> Translation:
    """Translates a single offset back by `OffsetMap.translate_back`."""
    return OffsetMap(runs).translate_back(committed)


def _with_unknown_spans(runs: Sequence[OffsetRun]) -> list[OffsetRun]:
    spans: list[OffsetRun] = []
    last: OffsetRun | None = None
    for run in runs:
        if last and last.tgt_until < run.tgt_from and last.src_until < run.src_from:
            records = min(run.src_from - last.src_until, run.tgt_from - last.tgt_until)
            hole = (last.src_until, run.src_from, last.tgt_until, records, run.tgt_from)
            spans.append(_UnknownSpan(*hole))
        spans.append(run)
        last = run if not last or last.tgt_until <= run.tgt_until else last
    return spans


def _newest_copies(
    runs: Sequence[OffsetRun], unknown: Sequence[_UnknownSpan]
) -> list[_NewestCopies]:
    newest: list[_NewestCopies] = []
    covered: list[tuple[int, int]] = []
    for run in (*reversed(runs), *unknown):
        pieces = subtract(run.src_from, run.src_until, covered)
        newest += [_NewestCopies(start, until, run) for start, until in pieces]
        covered = union(covered, run.src_from, run.src_until)
    return sorted(newest, key=lambda copies: copies.src_from)


def _suffix_minima(values: Sequence[int], last: int) -> list[int]:
    """Returns for each index the lowest of the values from there on, *last* included."""
    return list(accumulate([last, *reversed(values)], min))[::-1]


def _reject_negative(committed: int) -> None:
    if committed < 0:
        raise ValueError(f"a committed offset must be 0 or more, got {committed}")


# The offset map of a running flow, held in memory.
#
# The thread that records progress adds runs while the thread that translates groups reads them,
# hence the lock. Runs that were stored before this process started are loaded for those partitions
# that somebody asks about, from the lowest offset in question on: most partitions of a large flow
# have no group, and most groups are near the end of theirs.

FEW_RUNS = 1_024
"""Runs that a partition collects before they are thinned; then twice as many as were left."""


@dataclass(frozen=True, slots=True)
class TopicMap:
    """A partition's offset map and the id of the topic its source offsets belong to."""

    topic_id: str
    offsets: OffsetMap


@dataclass(slots=True)
class _Partition:
    """The runs of one partition; ``map`` is None while it has to be indexed again."""

    topic_id: str
    stored: Sequence[OffsetRun] = ()
    added: list[OffsetRun] = field(default_factory=list)
    mirror_syncs: Sequence[int] = ()
    thin_at: int = FEW_RUNS
    map: TopicMap | None = None

    def add(self, run: OffsetRun) -> None:
        joined = join_runs(self.added[-1], run) if self.added else None
        if joined is None:
            self.added.append(run)
        else:
            self.added[-1] = joined
        if len(self.added) >= self.thin_at:
            self.added = thin_runs(self.added, self.mirror_syncs)
            self.thin_at = max(FEW_RUNS, 2 * len(self.added))
        self.map = None

    def indexed(self) -> TopicMap:
        if self.map is None:
            self.map = TopicMap(self.topic_id, OffsetMap([*self._stored_before(), *self.added]))
        return self.map

    def _stored_before(self) -> Sequence[OffsetRun]:
        """Returns the stored runs that no added run repeats: those added have more borders.

        What earlier processes stored ends where the target's log ended when the first run was
        added. A position right there stays, wherever it is on the source: this process may have
        rewound, and the older position still says that records before it may be on the target.
        """
        if not self.added:
            return self.stored
        first = self.added[0]
        return [
            run
            for run in self.stored
            if run.tgt_from < first.tgt_from or run.tgt_until == first.tgt_from
        ]


class Asked(dict[TopicPartition, int]):
    """The offsets from which on stored runs have to be read, and since when that is so.

    Args:
        least: The lowest offset by partition.
        era: The map is another one from the moment at which a writer comes or goes.
    """

    def __init__(self, least: Mapping[TopicPartition, int], era: int) -> None:
        super().__init__(least)
        self.era = era


class LiveMap:
    """The offset map of one flow while its process runs. Threads may share it."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._loaded: dict[TopicPartition, int] = {}  # the lowest offset that was asked about
        self._committed: dict[TopicPartition, frozenset[int]] = {}  # by groups, as of now
        self._taken: dict[TopicPartition, frozenset[int]] = {}  # those with borders in the table
        self._is_attached = False
        self._era = 0
        self._lock = Lock()

    def attach(self) -> None:
        """Records that the flow's only writer adds its runs here from now on.

        What was loaded before is forgotten: another process may have written since.
        """
        with self._lock:
            self._is_attached = True
            self._era += 1
            self._forget()

    def detach(self) -> None:
        """Records that this process no longer writes the flow's map; another one may."""
        with self._lock:
            self._is_attached = False
            self._era += 1
            self._forget()

    def add(
        self,
        runs: Mapping[TopicPartition, Iterable[OffsetRun]],
        topic_ids: Mapping[str, str],
        mirror_syncs: Mapping[TopicPartition, Sequence[int]] | None = None,
    ) -> None:
        """Adds runs that the flow has just finished, oldest first.

        A partition whose topic id changed starts over: its offsets mean other records now.
        *mirror_syncs* are the source offsets at which no border is given up with age.
        """
        with self._lock:
            for tp, finished in runs.items():
                partition = self._of(tp, topic_ids[tp.topic])
                partition.mirror_syncs = (mirror_syncs or {}).get(tp, ())
                for run in finished:
                    partition.add(run)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets all runs of *partitions*, stored ones included: they are void."""
        with self._lock:
            for tp in partitions:
                self._partitions.pop(tp, None)
                self._taken.pop(tp, None)
                self._loaded[tp] = 0

    def not_loaded(self, least: Mapping[TopicPartition, int]) -> Asked:
        """Returns those of *least* from which on stored runs have to be read for `load`.

        All of them while no writer is attached: another process writes the table then.
        """
        with self._lock:
            if not self._is_attached:
                self._forget()
            missing = {
                tp: offset
                for tp, offset in least.items()
                if tp not in self._loaded or offset < self._loaded[tp]
            }
            return Asked(missing, self._era)

    def load(
        self, least: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, TopicMap]
    ) -> None:
        """Takes the *stored* maps, as far as they concern the offsets *least* and later ones.

        A partition of *least* without a map has none in the table. Rows that were asked for before
        a writer came or went are not taken: what was written since is not among them.
        """
        with self._lock:
            if self._is_of_earlier_era(least):
                return
            for tp, offset in least.items():
                if self._loaded.get(tp, offset + 1) <= offset:
                    continue  # while the table was read, its rows became void or were loaded
                self._loaded[tp] = offset
                if tp in stored:
                    known = self._partitions.get(tp)
                    if known is None or known.topic_id == stored[tp].topic_id:
                        partition = self._of(tp, stored[tp].topic_id)
                        partition.stored = stored[tp].offsets.runs
                        partition.map = None

    def maps(
        self, partitions: Iterable[TopicPartition], asked: Asked | None = None
    ) -> dict[TopicPartition, TopicMap]:
        """Returns the maps of *partitions*; one that was never replicated is absent.

        None at all if a writer has come or gone since *asked*: the stored runs may be missing.
        """
        with self._lock:
            if self._is_of_earlier_era(asked):
                return {}
            known = ((tp, self._partitions.get(tp)) for tp in partitions)
            return {tp: partition.indexed() for tp, partition in known if partition is not None}

    def want_borders(self, committed: Mapping[TopicPartition, Iterable[int]]) -> None:
        """Notes what groups have *committed* now: where that is is for the table as well."""
        with self._lock:
            if self._is_attached:
                self._committed |= {tp: frozenset(offsets) for tp, offsets in committed.items()}

    def take_borders(self) -> dict[TopicPartition, tuple[str, list[Border]]]:
        """Takes the borders there that were not taken before, with the topic ids.

        The table has fewer borders than the map in memory. What is translated exactly here is to
        be so for a command, and for the next process.
        """
        found: dict[TopicPartition, tuple[str, list[Border]]] = {}
        with self._lock:
            for tp, offsets in self._committed.items():
                new = offsets - self._taken.get(tp, frozenset())
                if not new or (partition := self._partitions.get(tp)) is None:
                    continue
                known = partition.indexed().offsets
                ahead = {offset for offset in new if offset > known.replicated_until}
                self._taken[tp] = offsets - ahead
                at = map(known.border_at, sorted(new - ahead))
                if borders := [border for border in at if border is not None]:
                    found[tp] = partition.topic_id, borders
        return found

    def _is_of_earlier_era(self, asked: Mapping[TopicPartition, int] | None) -> bool:
        return isinstance(asked, Asked) and asked.era != self._era

    def _forget(self) -> None:
        self._partitions.clear()
        self._loaded.clear()
        self._committed.clear()
        self._taken.clear()

    def _of(self, tp: TopicPartition, topic_id: str) -> _Partition:
        partition = self._partitions.get(tp)
        if partition is None or partition.topic_id != topic_id:
            partition = self._partitions[tp] = _Partition(topic_id)
        return partition


# Puts a translated offset into words, the same ones wherever an operator reads them.

_WHY_NONE: Final = {
    "topic created again": "its topic was deleted or created again, so it means another record",
    "topic not described": "the source denies its topic: it may be another one by now",
}


def quality(answer: Translation) -> str:
    """Returns how far *answer* can be trusted: the text beside its offset."""
    match answer:
        case Exact():
            return "exact"
        case Bounded(_, reread, 0):
            return f"at most {_records(reread)} may be read again"
        case Bounded(_, 0, missing):
            return f"the earliest copy; {_records(missing)} before it {_were(missing)} never copied"
        case Bounded(_, reread, missing):
            again = f"at most {_records(reread)} may be read again"
            return f"the earliest copy; {again}, {_records(missing)} {_were(missing)} never copied"
        case Ahead(_, reread):
            return f"ahead of replication; at most {_records(reread)} may be read again"
        case NoAnswer(reason, None):
            return _WHY_NONE.get(reason, "nothing replicated")
        case NoAnswer(_, first):
            return f"before the offset map, which starts at offset {first}"


def sentence(answer: Translation) -> str:
    """Returns one line for a person and a script: the offset, or ``none``, comes first."""
    if isinstance(answer, NoAnswer):
        return f"none: {quality(answer)}"
    return f"{answer.offset} {quality(answer)}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _records(count: int) -> str:
    return f"{count} record{'s' * (count != 1)}"


def fields(answer: Translation) -> dict[str, object]:
    """Returns *answer* as plain values with stable names, for programs."""
    if isinstance(answer, NoAnswer):
        return {"offset": None, "quality": "none", "reread": 0, "text": quality(answer)}
    missing = answer.never_copied if isinstance(answer, Bounded) else 0
    return {
        "offset": answer.offset,
        "quality": type(answer).__name__.lower(),
        "reread": 0 if isinstance(answer, Exact) else answer.reread,
        **({"never_copied": missing} if missing else {}),
        "text": quality(answer),
    }
