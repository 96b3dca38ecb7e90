"""Collects the runs of one generation until they are written to the offset map. Pure.

Runs come from two witnesses. Executors report every acknowledged record within a second, and each
finished batch reports its range and its count. Where both exist they must agree at the batch's end.
One thread may add while another takes the pending runs, hence the lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from replication.model import Position, TopicPartition
from replication.offsets.runs import OffsetRun, ProgressGapError, coarser, join_runs, next_run


@dataclass(frozen=True, slots=True)
class Report:
    """What executors report of one partition.

    Args:
        runs: Acknowledged records, in the order of the target's log.
        mirror_syncs: The source offsets that MirrorMaker 2 would translate by, in order.
    """

    runs: Sequence[OffsetRun]
    mirror_syncs: tuple[int, ...] = ()


class PendingRuns:
    """The positions of a generation's partitions, and the runs that are not yet in the offset map.

    A crash loses the pending runs: the next start finds the same positions from the target's log.

    Args:
        positions: Each partition's position at the start of the generation.
        spacing: Records between two borders where the source has gaps, 0 for every gap. None where
            executors do not report, so that batches alone are known.
    """

    def __init__(
        self, positions: Mapping[TopicPartition, Position], *, spacing: int | None = None
    ) -> None:
        self._partitions = {tp: _Partition(position, spacing) for tp, position in positions.items()}
        self._is_reported, self._lock = spacing is not None, Lock()

    def positions(self) -> dict[TopicPartition, Position]:
        """Each partition's position after the last record or batch added."""
        with self._lock:
            return {tp: partition.position for tp, partition in self._partitions.items()}

    def batch_starts(self) -> dict[TopicPartition, int]:
        """Where each partition's next batch starts upstream."""
        with self._lock:
            return {tp: partition.batch.upstream for tp, partition in self._partitions.items()}

    def add_acknowledged(self, tp: TopicPartition, report: Report) -> None:
        """Adds what executors reported of one partition.

        Raises:
            ProgressGapError: The report contradicts what is known.
        """
        with self._lock:
            partition = self._partitions[tp]
            for run in report.runs:
                partition.acknowledge(f"{tp}", run)
            partition.mirror_syncs = report.mirror_syncs

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

        Returns:
            The run of each partition that read anything.

        Raises:
            ProgressGapError: The batch does not continue the map, or counts do not fit.
        """
        with self._lock:
            written = (tp for tp, count in counts.items() if count)
            added = {
                tp: _batch_run(
                    f"batch {batch_id}, {tp}",
                    self._partitions.get(tp),
                    (start.get(tp), end.get(tp)),
                    counts.get(tp, 0),
                )
                for tp in sorted({*start, *end, *written})
            }
            for tp, run in added.items():
                self._partitions[tp].finish(f"batch {batch_id}, {tp}", run)
            if not self._is_reported:
                self._accept_batches()

    def unconfirmed(self) -> list[TopicPartition]:
        """The partitions in which a finished batch wrote records that were not reported yet."""
        with self._lock:
            return [tp for tp, partition in self._partitions.items() if partition.ends]

    def accept_batches(self) -> None:
        """Takes the finished batches' own counts where reports are missing.

        Raises:
            ProgressGapError: A count contradicts what was reported.
        """
        with self._lock:
            self._accept_batches()

    def skip(self, tp: TopicPartition, until: int) -> None:
        """Moves an idle partition to *until*: no record lies before it."""
        with self._lock:
            self._partitions[tp].skip(until)

    def _accept_batches(self) -> None:
        for tp, partition in self._partitions.items():
            partition.accept(f"{tp}")

    def take(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Returns the pending runs, merged, and forgets them.

        A caller that fails to write them keeps them and tries again.
        """
        with self._lock:
            return {
                tp: runs
                for tp, partition in self._partitions.items()
                if (runs := partition.pending.take())
            }

    def mirror_syncs(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The source offsets that MirrorMaker 2 would translate by, where executors report."""
        with self._lock:
            return {tp: partition.mirror_syncs for tp, partition in self._partitions.items()}

    def take_new(self) -> dict[TopicPartition, list[OffsetRun]]:
        """The runs added since the last call, for the map in memory, with each border reported."""
        with self._lock:
            return {
                tp: runs
                for tp, partition in self._partitions.items()
                if (runs := partition.new.take())
            }


@dataclass(slots=True)
class _Partition:
    """One partition: the last known pair, the end of the last batch, and the runs between.

    ``ends`` are the ends of finished batches that the reports have not reached. ``unchecked`` are
    the reported runs since the last end that both witnesses agreed on.
    """

    position: Position
    spacing: int | None
    batch: Position = field(init=False)
    pending: "_Runs" = field(init=False)
    new: "_Runs" = field(init=False)
    ends: list[Position] = field(default_factory=list)
    unchecked: list[OffsetRun] = field(default_factory=list)
    mirror_syncs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.batch = self.position
        self.pending, self.new = _Runs(self.spacing or 0), _Runs(0)

    def acknowledge(self, what: str, run: OffsetRun) -> None:
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
        self.batch = run.end
        self.ends.append(run.end)
        self._check(what)

    def accept(self, what: str) -> None:
        for end in self.ends:
            records = end.downstream - self.position.downstream
            upstream = self.position.upstream
            if records == 0 and end.upstream <= upstream:  # the partition was moved over markers
                continue
            if not 0 <= records <= end.upstream - upstream:
                raise ProgressGapError(f"{what}: a batch ends at {end}, after {self.position}")
            self._add(OffsetRun(upstream, end.upstream, self.position.downstream, records))
        if self.ends:
            self.ends, self.unchecked = [], []

    def skip(self, until: int) -> None:
        if not self.ends and self.position.upstream < until:
            self._add(OffsetRun(self.position.upstream, until, self.position.downstream, 0))

    def _check(self, what: str) -> None:
        """Compares finished batches with the reports, as far as these have come."""
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


class _Runs:
    """Runs that wait for somebody to take them, joined up to *spacing* records where sparse."""

    def __init__(self, spacing: int) -> None:
        self._spacing, self._runs = spacing, list[OffsetRun]()

    def add(self, run: OffsetRun) -> None:
        last = self._runs[-1] if self._runs else None
        joined = (join_runs(last, run) or coarser(last, run, self._spacing)) if last else None
        self._runs[-1:] = [joined] if joined else [*self._runs[-1:], run]

    def take(self) -> list[OffsetRun]:
        taken, self._runs = self._runs, []
        return taken


def _fits(run: OffsetRun, end: Position) -> bool:
    """Whether *end* can be a pair of equal positions next to or inside the reported *run*."""
    before = end.downstream - run.tgt_from
    if before <= 0:
        return run.src_from >= end.upstream
    if before >= run.count:
        return run.src_until <= end.upstream
    return run.src_from + before <= end.upstream <= run.src_until - (run.count - before)


def _batch_run(
    what: str, partition: _Partition | None, offsets: tuple[int | None, int | None], count: int
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
