"""Holds the runs of a generation back until its topics are known to be the same ones afterwards.

What is written to the offset map carries the topic ids that were true when the records were copied.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from replication.model import Position, TopicPartition
from replication.offsets.partition_runs import WaitingRuns
from replication.offsets.pending import PendingRuns
from replication.offsets.runs import OffsetRun

SECOND_LOOK: Final = 2
"""Which look after a record was copied counts: a broker may learn of a new topic a moment late."""


class Looks(Protocol):
    """The looks at topic ids; see `TopicIdWatch`."""

    @property
    def begun(self) -> int:
        """How many looks have begun."""

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""

    def look_again(self) -> int:
        """Waits for one more look, not for long; returns its number."""


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
        self._taken = pending.positions()
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
        positions, runs = self._pending.positions(), self._pending.take()
        moved = {tp: at for tp, at in positions.items() if at != self._taken.get(tp)}
        self._taken = positions
        look = self._looks.begun + SECOND_LOOK  # read last: that look began after what was taken
        if moved and (not self._held or self._held[-1].look != look):
            self._held.append(_Held(look))
        for tp, at in moved.items():
            self._held[-1].runs.setdefault(tp, []).extend(runs.get(tp, ()))
            self._held[-1].positions[tp] = at

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
