"""The queries of a generation: one, or two of the same partitions that read in turn.

At the end of a batch Spark's driver works for a while before the next tasks run. So that no record
waits for it, a second query starts when the first batch is long enough: its tasks are ready, and
take over where those of the first query hand over (``replication.source.Relay``). From then on each
query's tasks wait while those of the other one read.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from replication.model import TopicPartition
from replication.offsets.runs import ProgressGapError
from replication.spark.causes import error_of
from replication.spark.progress import Batch, QueryProgress

MOST_WAITING: Final = 8
"""Batches that wait for an earlier one. Its event comes when Spark has ended it, or never."""

LEAST_SECONDS: Final = 5
"""The shortest Real-Time batch that Spark takes."""

TURNS_OF_A_BATCH: Final = 3
"""A batch of two that take turns waits for one, and reads in one. The third is patience."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One of two queries that read in turn.

    Args:
        relay: The name that both have in common.
        seconds: How long a task reads at least.
        is_first: Whether it begins.
    """

    relay: str
    seconds: int
    is_first: bool

    @property
    def options(self) -> dict[str, str]:
        """What the shared source is told."""
        return {
            "relay": self.relay,
            "relayBegins": "true" if self.is_first else "false",
            "turnMs": str(1000 * self.seconds),
        }


def place_of(turn: Turn | None) -> str:
    """Returns what tells the names of two queries apart."""
    return "" if turn is None or turn.is_first else "-in-turn"


def batch_seconds(seconds: int, turn: Turn | None) -> int:
    """Returns how long Spark's batches are, of which *seconds* are asked for."""
    return max(LEAST_SECONDS, seconds if turn is None else seconds * TURNS_OF_A_BATCH)


class Queries:
    """The running query of a generation, or two that take turns.

    Args:
        start: Starts a query.
        copies: Each upstream partition, with the remote one whose records are counted.
        turn: Of the first query; None if it reads alone.
    """

    def __init__(
        self,
        start: Callable[[Turn | None], StreamingQuery],
        copies: Mapping[TopicPartition, TopicPartition],
        turn: Turn | None,
    ) -> None:
        self._start = start
        self._copies = copies
        self._turn = turn
        self._queries: list[StreamingQuery] = []
        self.progress: list[QueryProgress] = []
        self._waiting: list[Batch] = []
        self._add(turn)
        self._second_at = time.monotonic() + turn.seconds if turn else None

    def _add(self, turn: Turn | None) -> None:
        query = self._start(turn)
        self._queries.append(query)
        self.progress.append(QueryProgress(query, query.name, self._copies))

    def start_second(self) -> None:
        """Starts the second query, when it is time for that."""
        is_due = self._second_at is not None and time.monotonic() >= self._second_at
        if self._turn and is_due and self.are_active:
            self._second_at = None
            self._add(replace(self._turn, is_first=False))

    @property
    def are_active(self) -> bool:
        """Whether all of them run."""
        return all(query.isActive for query in self._queries)

    def failures(self) -> list[StreamingQueryException]:
        """Returns the errors that ended some of them."""
        errors = [error_of(query) for query in self._queries]
        return [error for error in errors if error is not None]

    def stop(self) -> None:
        """Stops all of them, and starts no other."""
        self._second_at = None
        with ExitStack() as stops:  # one that does not stop must not leave the other one running
            for query in self._queries:
                stops.callback(query.stop)

    def finished(self, starts_now: Callable[[], Mapping[TopicPartition, int]]) -> list[Batch]:
        """Returns the batches finished since the last call, in each partition's order.

        Args:
            starts_now: Returns where each partition's next batch starts.

        Raises:
            ProgressGapError: A batch that others wait for does not come.
        """
        found = [batch for progress in self.progress for batch in progress.finished()]
        if self._turn is None or not found:
            return found
        starts = starts_now()
        due, self._waiting = in_order([*self._waiting, *found], starts)
        if len(self._waiting) > MOST_WAITING:
            batch = self._waiting[0]
            tp, start = next(iter(batch.start.items()))
            raise ProgressGapError(
                f"batch {batch.batch_id}, {tp}: starts at offset {start}, expected {starts[tp]}"
            )
        return due


def in_order(
    batches: list[Batch], starts: Mapping[TopicPartition, int]
) -> tuple[list[Batch], list[Batch]]:
    """Puts the batches of two queries into each partition's order.

    Tasks hand over one by one, and a query tells of a batch when its last task has ended.

    Args:
        batches: Each with its own start.
        starts: Where each partition's next batch starts.

    Returns:
        What continues *starts*, in order, and what has to wait for another batch. A batch may be in
        both, with some of its partitions; where it has read nothing, it lacks the partition.
    """
    at, moved = dict(starts), [_moved(batch) for batch in batches]
    due = [batch for batch in moved if not batch.start]  # of no record, so that it waits for none
    waiting = [batch for batch in moved if batch.start]
    while True:
        found = [
            {tp for tp in batch.start if batch.start[tp] <= at.get(tp, 0)} for batch in waiting
        ]
        index = next((index for index, ready in enumerate(found) if ready), None)
        if index is None:
            return due, [batch for batch in waiting if batch.start]
        batch, ready = waiting[index], found[index]
        due.append(_only(batch, ready))
        at |= due[-1].end
        waiting[index] = _only(batch, batch.start.keys() - ready)


def _moved(batch: Batch) -> Batch:
    """Returns *batch* without the partitions of which it has read nothing."""
    written = {tp for tp, count in batch.counts.items() if count}
    return _only(batch, written | {tp for tp, end in batch.end.items() if end != batch.start[tp]})


def _only(batch: Batch, partitions: set[TopicPartition]) -> Batch:
    return Batch(
        batch.batch_id,
        {tp: offset for tp, offset in batch.start.items() if tp in partitions},
        {tp: offset for tp, offset in batch.end.items() if tp in partitions},
        {tp: count for tp, count in batch.counts.items() if tp in partitions},
    )
