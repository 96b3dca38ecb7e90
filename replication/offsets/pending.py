"""Collects the runs of one generation until they are written to the offset map. Pure.

One thread may add batches while another takes the pending runs, hence the lock.
"""

from collections.abc import Mapping
from threading import Lock

from replication.model import Position, TopicPartition
from replication.offsets.runs import OffsetRun, ProgressGapError, join_runs, next_run


class PendingRuns:
    """The positions of a generation's partitions, and the runs that are not yet in the offset map.

    A crash loses the pending runs: the next start finds the same positions from the target's log.

    Args:
        positions: Each partition's position at the start of the generation.
    """

    def __init__(self, positions: Mapping[TopicPartition, Position]) -> None:
        self._positions = dict(positions)
        self._pending: dict[TopicPartition, list[OffsetRun]] = {}
        self._lock = Lock()

    def positions(self) -> dict[TopicPartition, Position]:
        """Each partition's position after the last batch added."""
        with self._lock:
            return dict(self._positions)

    def add_batch(
        self,
        batch_id: int,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        counts: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, list[OffsetRun]]:
        """Adds one finished batch: all of it, or nothing if it raises.

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
                    self._positions.get(tp),
                    (start.get(tp), end.get(tp)),
                    counts.get(tp, 0),
                )
                for tp in sorted({*start, *end, *written})
            }
            for tp, run in added.items():
                self._positions[tp] = run.end
                if not run.is_anchor:  # a batch that read nothing here adds no information
                    self._append(tp, run)
            return {tp: [run] for tp, run in added.items() if not run.is_anchor}

    def take(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Returns the pending runs, merged, and forgets them.

        A caller that fails to write them keeps them and tries again.
        """
        with self._lock:
            pending, self._pending = self._pending, {}
            return pending

    def _append(self, partition: TopicPartition, run: OffsetRun) -> None:
        pending = self._pending.setdefault(partition, [])
        joined = join_runs(pending[-1], run) if pending else None
        if joined is None:
            pending.append(run)
        else:
            pending[-1] = joined


def _batch_run(
    what: str, position: Position | None, offsets: tuple[int | None, int | None], count: int
) -> OffsetRun:
    start, end = offsets
    if position is None:
        raise ProgressGapError(f"{what}: the generation does not read this partition")
    if start is None or end is None:
        raise ProgressGapError(
            f"{what}: wrote {count} records, but its offset range is {start} to {end}; "
            f"expected a start at {position.upstream}"
        )
    try:
        return next_run(position, src_from=start, src_until=end, count=count)
    except ProgressGapError as gap:
        raise ProgressGapError(f"{what}: {gap}") from None
