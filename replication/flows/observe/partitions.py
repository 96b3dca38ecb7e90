"""How far each partition of a flow is behind. Pure: its caller has asked the cluster.

The last known end of a log still counts while the source does not answer: the lag is at least that.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from replication.figures.lag import Lag, PartitionLag
from replication.figures.observation import PartitionFigures, TopicState
from replication.flows.board import Copying
from replication.model import TopicPartition

STALLED_SECONDS: Final = 120.0
"""How long a partition may stand before records."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a partition stands at one look.

    The position is None if nothing of a paused partition was ever copied; the lag is None then, and
    if its end was never seen.
    """

    tp: TopicPartition
    position: int | None
    end: int | None
    lag: Lag | None
    state: TopicState
    copied_until: float | None

    def is_at_rest_at(self, position: int | None, end: int | None, until: float | None) -> bool:
        """Returns whether these values are no news: where nothing waits, neither is time."""
        is_idle = self.state == "copying" and self.lag is not None and not self.lag.records
        return is_idle and (position, end, until) == (self.position, self.end, self.copied_until)

    def figures(self) -> PartitionFigures:
        """Returns what is shown of the partition."""
        found: dict[str, float] = {}
        if self.position is not None:
            found["position"] = self.position
        if self.end is not None:
            found["source_log_end"] = self.end
        if self.lag is not None:
            found["lag_records"] = self.lag.records
            if self.lag.seconds is not None:
                found["lag_seconds"] = self.lag.seconds
        if self.copied_until is not None:
            found["copied_until_timestamp_seconds"] = self.copied_until
        return PartitionFigures(self.tp.partition, self.state, found)


class Partitions:
    """The partitions of one flow, look by look."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self._lags: dict[TopicPartition, PartitionLag] = {}
        self._stands: dict[TopicPartition, tuple[int, float]] = {}  # where, and since when
        self._last: dict[TopicPartition, Standing] = {}

    def known(self, copying: Copying) -> Collection[TopicPartition]:
        """Returns the partitions that are copied, or were when the loop last ran, sorted.

        Between two generations nothing is copied, and the lag of all grows. So does that of what
        is paused, and it stays known.
        """
        if copying.generations:
            kept = {tp for tp in copying.positions if tp.topic in copying.topics}
        else:
            kept = copying.positions.keys() & self._lags.keys()
        kept |= copying.paused.keys()
        for gone in self._lags.keys() - kept:
            del self._lags[gone]
            self.ends.pop(gone, None)
            self._stands.pop(gone, None)
        if added := kept - self._lags.keys():
            lags = self._lags | {tp: PartitionLag() for tp in added}
            self._lags = dict(sorted(lags.items()))
        return self._lags.keys()

    def saw(self, at: float, ends: Mapping[TopicPartition, int]) -> None:
        """Notes where logs ended *at* a time; what did not answer is absent."""
        for tp, end in ends.items():
            if tp in self._lags:
                self._lags[tp].saw(at, end)
                self.ends[tp] = end

    def of_unknown_age(self, copying: Copying) -> Iterator[tuple[TopicPartition, int, int]]:
        """Yields the partitions that began with a backlog, with their positions and ends."""
        for tp, lag in self._lags.items():
            at = copying.next_offset(tp)
            is_backlog = lag.is_unknown and tp not in copying.source_ms and lag.lacks_record
            if is_backlog and at is not None:
                yield tp, at, self.ends[tp]

    def read(self, tp: TopicPartition, position: int, timestamp: float) -> None:
        """Notes the *timestamp* of the record at *position*."""
        self._lags[tp].read(position, timestamp)

    def look(
        self,
        now: float,
        copying: Copying,
        leaderless: Collection[TopicPartition],
        jumped: float = 0.0,
        *,
        is_waiting: bool = False,
    ) -> list[Standing]:
        """Returns where each partition stands *now*, sorted.

        Args:
            now: The `steady` time, as in all other methods.
            copying: What is copied.
            leaderless: Partitions without a leader.
            jumped: How far the machine's clock, by which records have their times, was set ahead.
            is_waiting: Whether records of the flow wait for a limit: then nothing has stalled.
        """
        if is_waiting:
            self._stands = {tp: (position, now) for tp, (position, _) in self._stands.items()}
        found = {
            tp: self._standing(tp, now, copying, jumped, is_leaderless=tp in leaderless)
            for tp in self.known(copying)
        }
        self._last = found
        return list(found.values())

    def _standing(
        self,
        tp: TopicPartition,
        now: float,
        copying: Copying,
        jumped: float,
        *,
        is_leaderless: bool,
    ) -> Standing:
        position, end = copying.next_offset(tp), self.ends.get(tp)
        newest = copying.source_ms.get(tp)
        until = None if newest is None else newest / 1000
        last, is_paused = self._last.get(tp), tp in copying.paused
        is_led = not is_paused and not is_leaderless
        if last is not None and is_led and last.is_at_rest_at(position, end, until):
            return last
        lag: Lag | None = None
        state: TopicState = "copying"
        if position is not None:
            self._lags[tp].moved(position)
        if end is not None and position is not None:
            lag = self._lags[tp].look(now, None if until is None else until - jumped)
            state = self._state(tp, now, position, lag)
        if is_paused:  # nobody expects that it moves, now and right after the pause
            self._stands.pop(tp, None)
            state = "paused"
        elif is_leaderless:
            state = "leaderless"
        return Standing(tp, position, end, lag, state, until)

    def _state(self, tp: TopicPartition, now: float, position: int, lag: Lag) -> TopicState:
        if not lag.records:
            self._stands.pop(tp, None)
            return "copying"
        stood = self._stands.get(tp)
        if stood is None or stood[0] != position:
            stood = self._stands[tp] = (position, now)
        return "stalled" if now - stood[1] >= STALLED_SECONDS else "lagging"
