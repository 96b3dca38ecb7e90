"""The offset map's runs: what one is, how they merge, how finished batches become them. Pure.

Offsets are positions: the next offset to read or to write, never the last one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from replication.errors import GuardError
from replication.model import Position, TopicPartition


class ProgressGapError(GuardError):
    """A finished batch does not continue where the books stand; the text says by how much.

    Progress was lost or a record was counted where none was read. Start a new generation: it finds
    the positions from the target's log.
    """


@dataclass(frozen=True, slots=True, order=True)
class OffsetRun:
    """A stretch of one partition: source range, where it starts on the target, records written.

    A run of no width is an *anchor*: a pair of equal positions, known without a record between.
    """

    src_from: int
    src_until: int
    tgt_from: int
    count: int

    def __post_init__(self) -> None:
        if self.src_from < 0 or self.tgt_from < 0:
            raise ValueError(f"offsets must be 0 or more, got {self}")
        if not 0 <= self.count <= self.src_until - self.src_from:
            raise ValueError(f"count must lie between 0 and the width of the range, got {self}")

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
        """Whether this is only a pair of equal positions."""
        return self.src_from == self.src_until

    @property
    def end(self) -> Position:
        """The positions after the run: where its successor starts on both sides."""
        return Position(self.src_until, self.tgt_until)

    def lowest(self, committed: int) -> int:
        """The least target offset at which the run's first record >= *committed* can be."""
        return max(self.tgt_from, self.tgt_until - max(0, self.src_until - committed))

    def highest(self, committed: int) -> int:
        """The greatest target offset at which the run's first record >= *committed* can be."""
        return self.tgt_from + min(self.count, max(0, committed - self.src_from))


def anchor(position: Position) -> OffsetRun:
    """The run that says no more than: these two positions are equal."""
    return OffsetRun(position.upstream, position.upstream, position.downstream, 0)


def merge_runs(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """The same map in as few runs as lose nothing, in the order of the target's log.

    Dense neighbours become one run, and so do neighbours without records: every position in them
    stays exact. Sparse runs are never joined, for each border is an exact position that joining
    would blur. An anchor goes where a neighbour says the same. A run given twice counts once.

    Args:
        runs: One partition's runs, in any order; runs that start and end at the same target
            offset (anchors, runs without records) keep the order given: oldest first, please.

    Raises:
        ValueError: Two runs claim the same target offsets for different records. The target was
            recreated or truncated, or had a second writer: leave out the runs that are void.
    """
    merged: list[OffsetRun] = []
    for run in sorted(runs, key=lambda run: (run.tgt_from, run.tgt_until)):
        if merged:
            _refuse_contradiction(merged[-1], run)
        joined = run
        while merged and (both := _joined(merged[-1], joined)):
            joined = both
            merged.pop()
        merged.append(joined)
    return merged


def _joined(run: OffsetRun, after: OffsetRun) -> OffsetRun | None:
    """One run that says what both say, or None where none does."""
    if run == after:
        return run
    if after.is_anchor and run.end == after.end:
        return run
    if run.is_anchor and (run.src_from, run.tgt_from) == (after.src_from, after.tgt_from):
        return after
    if run.is_dense and after.is_dense and not after.is_anchor and not run.is_anchor:
        same_shift = run.tgt_from - run.src_from == after.tgt_from - after.src_from
        if same_shift and run.src_from <= after.src_from <= run.src_until:
            until = max(run.src_until, after.src_until)
            return OffsetRun(run.src_from, until, run.tgt_from, until - run.src_from)
    if run.count == after.count == 0 and run.end == Position(after.src_from, after.tgt_from):
        return OffsetRun(run.src_from, after.src_until, run.tgt_from, 0)
    return None


def _refuse_contradiction(run: OffsetRun, after: OffsetRun) -> None:
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
    """The run that one finished batch adds for one partition.

    Args:
        position: Where the partition stood before the batch, on both sides.
        src_from: The batch's start offset, from the progress event.
        src_until: The batch's end offset, exclusive.
        count: Records the batch wrote, as observed by the query.

    Raises:
        ProgressGapError: The batch does not start at *position*, or *count* does not fit its range.
    """
    if src_from != position.upstream:
        raise ProgressGapError(f"it starts at {src_from}, the books stand at {position.upstream}")
    if not 0 <= count <= src_until - src_from:
        raise ProgressGapError(f"it wrote {count} records of the range [{src_from}, {src_until})")
    return OffsetRun(src_from, src_until, position.downstream, count)


class PendingRuns:
    """Where each partition of a generation stands, and the runs not yet written to the table.

    One thread may add batches while another drains. A crash loses what was not drained: the next
    start finds the same positions from the target's log.
    """

    def __init__(self, positions: Mapping[TopicPartition, Position]) -> None:
        self._positions = dict(positions)
        self._pending: dict[TopicPartition, list[OffsetRun]] = {}
        self._lock = Lock()

    def positions(self) -> dict[TopicPartition, Position]:
        """Where every partition stands, after the last batch added."""
        with self._lock:
            return dict(self._positions)

    def add_batch(
        self,
        batch_id: int,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        counts: Mapping[TopicPartition, int],
    ) -> None:
        """Book one finished batch: all of it, or nothing if it raises.

        Args:
            batch_id: For the error's text only.
            start: The batch's start offsets upstream.
            end: Its end offsets, exclusive; partitions in neither stand still.
            counts: Records written per partition; a partition left out wrote none.

        Raises:
            ProgressGapError: The batch does not continue the map, or counts do not fit.
        """
        with self._lock:
            named = sorted({*start, *end, *(tp for tp, count in counts.items() if count)})
            added = {
                partition: _booked(
                    f"batch {batch_id}, {partition}",
                    self._positions.get(partition),
                    (start.get(partition), end.get(partition)),
                    counts.get(partition, 0),
                )
                for partition in named
            }
            for partition, run in added.items():
                self._positions[partition] = run.end
                if not run.is_anchor:  # a batch that read nothing here says nothing new
                    self._append(partition, run)

    def drain(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Hand over the runs not yet written, merged, and forget them.

        A caller that fails to write them keeps them and tries again.
        """
        with self._lock:
            pending, self._pending = self._pending, {}
            return pending

    def _append(self, partition: TopicPartition, run: OffsetRun) -> None:
        pending = self._pending.setdefault(partition, [])
        joined = _joined(pending[-1], run) if pending else None
        if joined is None:
            pending.append(run)
        else:
            pending[-1] = joined


def _booked(
    what: str, position: Position | None, offsets: tuple[int | None, int | None], count: int
) -> OffsetRun:
    start, end = offsets
    if position is None or start is None or end is None:
        raise ProgressGapError(
            f"{what}: its offsets are {start} to {end}, with {count} records written; "
            f"the books stand at {position.upstream if position else 'nothing'}"
        )
    try:
        return next_run(position, src_from=start, src_until=end, count=count)
    except ProgressGapError as gap:
        raise ProgressGapError(f"{what}: {gap}") from None


def mm2_syncs(run: OffsetRun, *, replicated_until: int = 0) -> tuple[tuple[int, int], ...]:
    """The (upstream, downstream) pairs of a finished run that MirrorMaker 2 may translate by.

    MM2 takes the newest sync with upstream <= committed and answers downstream if they are equal,
    downstream + 1 if not. With the pair before the run's end it answers the run's end for every
    group at or past it, and at most one record too early for a group one short of it, whether or
    not a record is there. A run without records gets no pair: its predecessor's says as much, and
    for an anchor at target offset 0 the pair would need offset -1.

    Args:
        run: A finished run.
        replicated_until: The greatest ``src_until`` among older runs of the same source topic id.
            A run that repeats what was replicated before gets no pair until it is past that, for
            MM2 forgets all older syncs when one steps back, and would send a group past records
            whose only copy lies before the repetition.
    """
    if run.count == 0 or run.src_until < replicated_until:
        return ()
    return ((run.src_until - 1, run.tgt_until - 1),)
