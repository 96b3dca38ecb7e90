"""Which translated positions may be emitted while older records are still being copied. Pure.

A group that is ahead of replication translates to the end of what is replicated. That is always
safe, but during the first bulk copy it is a position that the group passed long ago: the group
would be committed to offset 0 and then moved forward with the copy. So a group waits until the
offset map covers the position at which the group was first seen. From then on it is ahead by no
more than the copy's lag, and its positions are emitted.

What lies between the map's end and a group's position need not be a record: a transaction's
marker is never copied. So nobody waits for a map that has stopped growing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replication.groups.positions import GroupPartition, GroupPosition
from replication.model import TopicPartition


@dataclass(slots=True)
class _Waiting:
    """A position that the map has not reached, and since when the map has not grown."""

    seen_at: int
    replicated_until: int
    since: float


class FirstSight:
    """The positions at which groups were first seen and that replication has not reached yet.

    Args:
        stalled_after_seconds: How long a map must not have grown for nobody to wait for it; longer
            than the time between two additions to the map of a flow that copies.
    """

    def __init__(self, stalled_after_seconds: float) -> None:
        self._stalled_after_seconds = stalled_after_seconds
        self._waiting: dict[GroupPartition, _Waiting] = {}
        self._reached: set[GroupPartition] = set()

    def ready(
        self,
        positions: Iterable[GroupPosition],
        replicated_until: Mapping[TopicPartition, int],
        now: float,
    ) -> list[GroupPosition]:
        """Returns those of *positions* that may be emitted.

        Args:
            positions: Of one round. A new one is remembered until replication reaches it.
            replicated_until: The source offset up to which each upstream partition is replicated;
                a partition that was never replicated is absent.
            now: A monotonic time in seconds.
        """
        return [
            position
            for position in positions
            if self._is_ready(position, replicated_until.get(position.upstream, -1), now)
        ]

    def _is_ready(self, position: GroupPosition, until: int, now: float) -> bool:
        key = position.key
        if key in self._reached:
            return True
        new = _Waiting(position.committed.offset, until, now)
        waiting = self._waiting.setdefault(key, new)
        if until > waiting.replicated_until:
            waiting.replicated_until = until
            waiting.since = now
        is_stalled = now - waiting.since >= self._stalled_after_seconds
        if until < waiting.seen_at and not is_stalled:
            return False
        del self._waiting[key]
        self._reached.add(key)
        return True
