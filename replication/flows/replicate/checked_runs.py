"""Holds the runs of a generation back until its topics are known to be the same ones afterwards.

What is written to the offset map carries the topic ids that were true when the records were copied.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from replication.model import Position, TopicPartition
from replication.offsets.partition_runs import WaitingRuns
from replication.offsets.pending import PendingRuns
from replication.offsets.runs import OffsetRun


class Looks(Protocol):
    """The looks at topic ids; see `TopicIdWatch`."""

    def want(self, topics: Iterable[str]) -> int:
        """Lets *topics* be looked at; returns which look, by number, checks what they are now."""

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""

    def look_again(self) -> int:
        """Waits for one more look at all topics, not for long; returns its number."""


@dataclass(slots=True)
class _Held:
    """What was copied until a time, and the look that checks it: one that began later."""

    look: int
    runs: dict[TopicPartition, list[OffsetRun]] = field(default_factory=dict)
    positions: dict[TopicPartition, Position] = field(default_factory=dict)


class CheckedRuns:
    """The pending runs of one generation, as far as they are of the topics that it began with.

    Args:
        pending: All of them.
        looks: At the ids of the topics.
        spacing: As in `PendingRuns`.
    """

    def __init__(self, pending: PendingRuns, looks: Looks, spacing: int | None) -> None:
        self._pending = pending
        self._looks = looks
        self._spacing = spacing or 0
        self._held: deque[_Held] = deque()
        self._checked: dict[TopicPartition, WaitingRuns] = {}
        self._positions = pending.positions()

    def advance(self) -> None:
        """Takes what is new, and lets go of what looks have checked since."""
        self._hold()
        self._let_go()

    def finish(self) -> None:
        """Takes everything, and waits for one more look at the topics."""
        self._hold()
        look = self._looks.look_again()
        for held in self._held:
            held.look = min(held.look, look)
        self._let_go()

    def take(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Takes the checked runs, merged, and forgets them."""
        checked, self._checked = self._checked, {}
        return {tp: runs.take() for tp, runs in checked.items()}

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Returns each partition's position after the last record that is checked."""
        return self._positions

    def _hold(self) -> None:
        taken = self._pending.take()
        if not taken:
            return
        look = self._looks.want({tp.topic for tp in taken})  # last: it begins after what was taken
        if not self._held or self._held[-1].look != look:
            self._held.append(_Held(look))
        for tp, runs in taken.items():
            self._held[-1].runs.setdefault(tp, []).extend(runs)
            self._held[-1].positions[tp] = runs[-1].end

    def _let_go(self) -> None:
        for held in self._held:
            for tp in [tp for tp in held.positions if self._is_checked(tp, held)]:
                for run in held.runs.pop(tp, ()):
                    self._checked.setdefault(tp, WaitingRuns(self._spacing)).add(run)
                self._positions[tp] = held.positions.pop(tp)
        while self._held and not self._held[0].positions:
            self._held.popleft()

    def _is_checked(self, tp: TopicPartition, held: _Held) -> bool:
        return self._looks.is_same(tp.topic, held.look)
