"""What two witnesses know of one partition of a running generation. Pure.

See `replication.offsets.pending`. Where others write the remote partition as well, the number of
records does not give their place there, so that the executors' reports alone do.
"""

from dataclasses import dataclass, field

from replication.model import Position
from replication.offsets.runs import OffsetRun, ProgressGapError, coarser, join_runs


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
        """Adds a run that executors report; *what* says whose it is, for an error.

        Raises:
            ProgressGapError: The run contradicts what is known.
        """
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
        """Adds the end of a finished batch, which read and wrote *run*.

        Raises:
            ProgressGapError: It contradicts the reports.
        """
        self.batch = run.end
        self.ends.append(run.end)
        self._check(what)

    def accept(self, what: str) -> None:
        """Takes the finished batches' own counts where the reports are missing.

        Raises:
            ProgressGapError: A count contradicts the reports, or says nothing without them.
        """
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
        """Ends the generation where reports are missing: the next one copies those records again.

        Raises:
            ProgressGapError: A finished batch was not reported as a whole.
        """
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
