"""Collects the runs of one generation until they are written to the offset map. Pure.

Runs come from two witnesses. Executors report every acknowledged record within a second, and each
finished batch reports its range and its count. Where both exist they must agree at the batch's end.
One thread may add while another takes the pending runs, hence the lock.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from replication.model import Position, TopicPartition
from replication.offsets.partition_runs import PartitionRuns, SharedRuns
from replication.offsets.runs import OffsetRun, ProgressGapError, next_run


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
