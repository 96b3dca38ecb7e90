"""Collects the runs of one generation until they are written to the offset map. Pure.

Runs come from two witnesses. Executors report every acknowledged record within a second, and each
finished batch reports its range and its count. Where both exist they must agree at the batch's end.
One thread may add while another takes the pending runs, hence the lock.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from replication.model import Position, TopicPartition
from replication.offsets.runs import OffsetRun, ProgressGapError, coarser, join_runs, next_run

# What the two witnesses know of one partition. Where others write the remote partition as well, the
# number of records does not give their place there, so that the executors' reports alone do.


@dataclass(slots=True)
class PartitionRuns:
    """One partition: the last known pair, the end of the last batch, and the runs between.

    ``ends`` are the ends of finished batches that the reports have not reached. ``unchecked`` are
    the reported runs since the last end that both witnesses agreed on.
    """

    position: Position
    spacing: int | None
    batch: Position = field(init=False)
    pending: "WaitingRuns" = field(init=False)
    new: "WaitingRuns" = field(init=False)
    ends: list[Position] = field(default_factory=list)
    unchecked: list[OffsetRun] = field(default_factory=list)
    mirror_syncs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.batch = self.position
        self.pending = WaitingRuns(self.spacing or 0)
        self.new = WaitingRuns(0)

    @property
    def settled_at(self) -> int | None:
        """Where the last batch ended upstream, if both witnesses agree on all before; else None."""
        return None if self.ends or self.unchecked else self.batch.upstream

    def acknowledge(self, what: str, run: OffsetRun) -> None:
        """Adds a run that executors report; *what* says whose it is, for an error."""
        run = run.after(self.position)
        if run.is_anchor:  # late: the batch's own count was taken instead
            return
        unread = run.src_from - self.position.upstream
        unknown = run.tgt_from - self.position.downstream
        if not 0 <= unknown <= unread:
            raise ProgressGapError(
                f"{what}: executors report {run}, but the last known position is {self.position}"
            )
        if unread:
            self._add(
                OffsetRun(self.position.upstream, run.src_from, self.position.downstream, unknown)
            )
        self._add(run)
        joined = join_runs(self.unchecked[-1], run) if self.unchecked else None
        self.unchecked[-1:] = [joined] if joined else [*self.unchecked[-1:], run]
        self._check(what)

    def finish(self, what: str, run: OffsetRun) -> None:
        """Adds the end of a finished batch, which read and wrote *run*."""
        self.batch = run.end
        self.ends.append(run.end)
        self._check(what)

    def accept(self, what: str) -> None:
        """Takes the finished batches' own counts where the reports are missing."""
        for end in self.ends:
            records = end.downstream - self.position.downstream
            upstream = self.position.upstream
            if records == 0 and end.upstream <= upstream:  # the partition was moved over markers
                continue
            if not 0 <= records <= end.upstream - upstream:
                raise ProgressGapError(f"{what}: a batch ends at {end}, after {self.position}")
            self._add(OffsetRun(upstream, end.upstream, self.position.downstream, records))
        if self.ends:
            self.ends = []
            self.unchecked = []

    def skip(self, until: int) -> None:
        """Moves the idle partition to *until*: no record lies before it."""
        if not self.ends and self.position.upstream < until:
            self._add(OffsetRun(self.position.upstream, until, self.position.downstream, 0))

    def _check(self, what: str) -> None:
        if self.spacing is None:
            return
        while self.ends and self.ends[0].downstream <= self.position.downstream:
            end = self.ends.pop(0)
            if not all(_fits(run, end) for run in self.unchecked):
                raise ProgressGapError(
                    f"{what}: the batch ends at {end}, which contradicts the acknowledged records "
                    f"{self.unchecked[-1]}"
                )
            self.unchecked = [run for run in self.unchecked if run.tgt_until > end.downstream]
            if self.position.upstream < end.upstream and not self.unchecked:
                upstream, downstream = self.position.upstream, self.position.downstream
                self._add(OffsetRun(upstream, end.upstream, downstream, 0))

    def _add(self, run: OffsetRun) -> None:
        self.position = run.end
        if run.is_anchor:  # a batch that read nothing here adds no information
            return
        self.pending.add(run)
        self.new.add(run)


@dataclass(slots=True)
class SharedRuns(PartitionRuns):
    """One partition whose remote partition others also write.

    Batches are compared with the reports by their numbers of records: ``written`` and the ends of
    batches are the target offsets that there would be without other writers.
    """

    written: int = field(init=False)

    def __post_init__(self) -> None:
        PartitionRuns.__post_init__(self)
        self.written = self.position.downstream

    def acknowledge(self, what: str, run: OffsetRun) -> None:
        """Acknowledges as `PartitionRuns` does.

        Between two runs on the target there may be others' records.
        """
        start = self.position
        if run.src_from < start.upstream or run.tgt_from < start.downstream:
            raise ProgressGapError(
                f"{what}: executors report {run}, but the last known position is {start}"
            )
        if start.upstream < run.src_from:  # no record is in a gap of the source
            self._add(OffsetRun(start.upstream, run.src_from, start.downstream, 0))
        self._add(run)
        self.written += run.count
        self._check(what)

    def accept(self, what: str) -> None:
        """Ends a generation that lacks reports: the next one copies those records again."""
        if self.ends:
            raise ProgressGapError(
                f"{what}: executors have not reported all records of a finished batch, which ends "
                f"at source offset {self.ends[-1].upstream}; those after {self.position.upstream} "
                "are copied again"
            )

    def _check(self, _what: str) -> None:
        while self.ends and self.ends[0].downstream <= self.written:
            end, start = self.ends.pop(0), self.position
            if start.upstream < end.upstream and end.downstream == self.written:
                self._add(OffsetRun(start.upstream, end.upstream, start.downstream, 0))


class WaitingRuns:
    """Runs that wait for somebody to take them, joined up to *spacing* records where sparse."""

    def __init__(self, spacing: int) -> None:
        self._spacing = spacing
        self._runs = list[OffsetRun]()

    def add(self, run: OffsetRun) -> None:
        """Adds the run after all others."""
        last = self._runs[-1] if self._runs else None
        joined = (join_runs(last, run) or coarser(last, run, self._spacing)) if last else None
        self._runs[-1:] = [joined] if joined else [*self._runs[-1:], run]

    def take(self) -> list[OffsetRun]:
        """Takes the runs and forgets them."""
        taken, self._runs = self._runs, []
        return taken


def _fits(run: OffsetRun, end: Position) -> bool:
    """Returns whether *end* can be a pair of equal positions next to or inside the *run*.

    The *run* is one that was reported.
    """
    before = end.downstream - run.tgt_from
    if before <= 0:
        return run.src_from >= end.upstream
    if before >= run.count:
        return run.src_until <= end.upstream
    return run.src_from + before <= end.upstream <= run.src_until - (run.count - before)


@dataclass(frozen=True, slots=True)
class Report:
    """What executors report of one partition.

    Args:
        runs: Acknowledged records, in the order of the target's log.
        mirror_syncs: The source offsets that MirrorMaker 2 would translate by, in order.
    """

    runs: Sequence[OffsetRun]
    mirror_syncs: tuple[int, ...] = ()


class RecordRejection(NamedTuple):
    """A record that the target rejected: its source offset, and what the target said."""

    offset: int
    text: str


class Copied(NamedTuple):
    """What executors report of records that were acknowledged since their last report.

    Args:
        bytes: Of their keys and values.
        newest_ms: The newest of their timestamps; -1 if the target gave none.
        source_ms: The newest timestamp that some of them have on the source; -1 if that is unknown.
    """

    bytes: int
    newest_ms: int
    source_ms: int


class LeftOut(NamedTuple):
    """What executors report of a partition that a micro-batch leaves out before its end.

    Args:
        batch: Its number; Spark takes it for whole, and the next one goes back.
        offset: Of the first source record that it has not read.
    """

    batch: int
    offset: int


class Overdue:
    """How long the ends of finished batches have waited for the reports of their records.

    Where one batch follows the other, some batch waits at every look, and each for a moment only.

    Args:
        patience_seconds: How long an end may wait.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._since: dict[tuple[TopicPartition, Position], float] = {}

    def look(self, ends: Mapping[TopicPartition, Position], now: float) -> list[TopicPartition]:
        """Returns the partitions whose end has been among *ends* for too long.

        Args:
            ends: All that wait, as `PendingRuns.unconfirmed` has them.
            now: Seconds of a clock that does not go back.
        """
        self._since = {end: self._since.get(end, now) for end in ends.items()}
        return [tp for (tp, _), since in self._since.items() if now - since >= self._patience]


class PendingRuns:
    """The positions of a generation's partitions, and the runs that are not yet in the offset map.

    A crash loses the pending runs: the next start finds the same positions from the target's log.
    Whoever takes runs looks at no partition that has stood since: of thousands, few may move.

    Args:
        positions: Each partition's position at the start of the generation.
        spacing: Records between two borders where the source has gaps, 0 for every gap. None where
            executors do not report, so that batches alone are known.
        shared: Partitions whose remote partition others write as well; only reports tell of them.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, Position],
        *,
        spacing: int | None = None,
        shared: Collection[TopicPartition] = (),
    ) -> None:
        self._partitions = {
            tp: SharedRuns(position, spacing) if tp in shared else PartitionRuns(position, spacing)
            for tp, position in positions.items()
        }
        self._is_reported = spacing is not None
        self._moved = set[TopicPartition]()  # since the last `take`, perhaps
        self._new = set[TopicPartition]()  # since the last `take_new`, perhaps
        self._unconfirmed = set[TopicPartition]()
        self._left_out: dict[tuple[int, TopicPartition], int] = {}
        self._lock = Lock()

    def positions(self) -> dict[TopicPartition, Position]:
        """Returns each partition's position after the last record or batch added."""
        with self._lock:
            return {tp: partition.position for tp, partition in self._partitions.items()}

    def batch_starts(self) -> dict[TopicPartition, int]:
        """Returns where each partition's next batch starts upstream."""
        with self._lock:
            return {tp: partition.batch.upstream for tp, partition in self._partitions.items()}

    def add_acknowledged(self, tp: TopicPartition, report: Report) -> None:
        """Adds what executors reported of one partition.

        Raises:
            ProgressGapError: The report contradicts what is known.
        """
        with self._lock, self._changing(tp) as partition:
            for run in report.runs:
                partition.acknowledge(f"{tp}", run)
            partition.mirror_syncs = report.mirror_syncs

    def leave_out(self, tp: TopicPartition, left: LeftOut) -> None:
        """Notes, before the batch is added, that it ends earlier in one partition than it says."""
        with self._lock:
            self._left_out[left.batch, tp] = left.offset

    def add_batch(
        self,
        batch_id: int,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        counts: Mapping[TopicPartition, int],
    ) -> None:
        """Adds one finished batch: all of it, or nothing if it does not continue the map.

        Args:
            batch_id: For the error's text only.
            start: The batch's start offsets upstream.
            end: Its end offsets, exclusive. A partition in neither keeps its position.
            counts: Records written per partition; a missing partition wrote none.

        Raises:
            ProgressGapError: The batch does not continue the map, or counts do not fit.
        """
        with self._lock:
            start, end = self._as_read(batch_id, start, end)
            written = (tp for tp, count in counts.items() if count)
            added = {
                tp: _batch_run(
                    f"batch {batch_id}, {tp}",
                    self._partitions.get(tp),
                    (start.get(tp), end.get(tp)),
                    counts.get(tp, 0),
                )
                for tp in sorted({*start, *end, *written})
                if counts.get(tp) or not self._stands(tp, start.get(tp), end.get(tp))
            }
            for tp, run in added.items():
                with self._changing(tp) as partition:
                    partition.finish(f"batch {batch_id}, {tp}", run)
            if not self._is_reported:
                self._accept_batches(self._unconfirmed)

    def unconfirmed(self) -> dict[TopicPartition, Position]:
        """Returns where the oldest finished batch ends of which not all records are reported."""
        with self._lock:
            return {tp: self._partitions[tp].ends[0] for tp in sorted(self._unconfirmed)}

    def accept_batches(self, partitions: Collection[TopicPartition]) -> None:
        """Takes the finished batches' own counts of *partitions*, whose reports are missing.

        Raises:
            ProgressGapError: A count contradicts what was reported.
        """
        with self._lock:
            self._accept_batches(partitions)

    def skip(self, tp: TopicPartition, until: int) -> None:
        """Moves an idle partition to *until*: no record lies before it."""
        with self._lock, self._changing(tp) as partition:
            partition.skip(until)

    @contextmanager
    def _changing(self, tp: TopicPartition) -> Iterator[PartitionRuns]:
        """Notes that *tp* may have moved in the block, however that ends."""
        partition = self._partitions[tp]
        try:
            yield partition
        finally:
            self._moved.add(tp)
            self._new.add(tp)
            if partition.ends:
                self._unconfirmed.add(tp)
            else:
                self._unconfirmed.discard(tp)

    def _stands(self, tp: TopicPartition, start: int | None, end: int | None) -> bool:
        """Returns whether a batch without a record of *tp* says nothing that is not known."""
        partition = self._partitions.get(tp)
        return partition is not None and start == end == partition.settled_at

    def _as_read(
        self,
        batch_id: int,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
    ) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """Returns where a batch has begun and ended in truth: the next one begins there as well."""
        left = self._left_out
        self._left_out = {key: offset for key, offset in left.items() if key[0] >= batch_id}
        return (
            {tp: left.get((batch_id - 1, tp), offset) for tp, offset in start.items()},
            {tp: left.get((batch_id, tp), offset) for tp, offset in end.items()},
        )

    def _accept_batches(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in sorted(partitions):
            with self._changing(tp) as partition:
                partition.accept(f"{tp}")

    def take(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Takes the pending runs, merged, and forgets them.

        A caller that fails to write them keeps them and tries again.
        """
        with self._lock:
            moved, self._moved = self._moved, set()
            taken = ((tp, self._partitions[tp].pending.take()) for tp in sorted(moved))
            return {tp: runs for tp, runs in taken if runs}

    def mirror_syncs(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Returns the source offsets MirrorMaker 2 would translate by, if executors report."""
        with self._lock:
            return {tp: self._partitions[tp].mirror_syncs for tp in partitions}

    def take_new(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Takes the runs added since the last call, with each border reported.

        They are for the map in memory.
        """
        with self._lock:
            new, self._new = self._new, set()
            taken = ((tp, self._partitions[tp].new.take()) for tp in sorted(new))
            return {tp: runs for tp, runs in taken if runs}


def _batch_run(
    what: str, partition: PartitionRuns | None, offsets: tuple[int | None, int | None], count: int
) -> OffsetRun:
    start, end = offsets
    if partition is None:
        raise ProgressGapError(f"{what}: the generation does not read this partition")
    if start is None or end is None:
        raise ProgressGapError(
            f"{what}: wrote {count} records, but its offset range is {start} to {end}; "
            f"expected a start at {partition.batch.upstream}"
        )
    try:
        return next_run(partition.batch, src_from=start, src_until=end, count=count)
    except ProgressGapError as gap:
        raise ProgressGapError(f"{what}: {gap}") from None
