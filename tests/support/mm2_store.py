"""A model of MirrorMaker 2.4's offset syncs, to compare the offset map with.

`MirrorSourceTask` decides which pairs become syncs; `OffsetSyncStore` keeps 64 of them for each
partition and translates by those. The rules are those of Kafka 3.7.1 to 4.3.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SLOTS = 64
MOST = (1 << 63) - 1

Pair = tuple[int, int]
"""The upstream and the downstream offset of one record."""


@dataclass
class SyncRule:
    """Which acknowledged pairs of one partition become an offset sync at once.

    MM2 also writes the newest pair with each commit, once a minute by default. That is left out:
    its time is not that of any record.
    """

    lag_max: int
    _last: Pair = (-1, -1)
    _synced: int = -1

    def synced(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Those of the next *pairs*."""
        for pair in pairs:
            if (
                self._synced == -1
                or pair[1] - (self._synced + 1) >= self.lag_max
                or pair[0] - self._last[0] != 1
                or pair[1] < self._last[1]
            ):
                self._synced = pair[1]
                yield pair
            self._last = pair


@dataclass
class OffsetSyncStore:
    """MM2's store of one partition's syncs; ``slots`` are empty before the first one."""

    slots: list[Pair] = field(default_factory=list)

    def add(self, sync: Pair) -> None:
        """`handleRecord`: keeps at most one sync for each power of two of the distance."""
        if not self.slots or sync[0] < self.slots[0][0]:
            self.slots = [sync] * SLOTS
            return
        old, new = self.slots, [sync, *self.slots[1:]]
        filler, at = sync, 0
        for i in range(1, SLOTS):
            skip = True
            while skip and at < i:
                found = old[at]
                is_apart = _is_apart(new[i - 1], found, i - 1)
                is_before = i == SLOTS - 1 or _is_apart(found, new[i + 1], i)
                is_taken = _is_close(new[i - 1], found, i - 1, i) and is_apart and is_before
                if is_taken:
                    filler = found
                skip = found == old[at + 1] or not is_apart
                if is_taken or skip:
                    at += 1
            if _is_close(new[i - 1], new[i], i - 1, i):
                break
            new[i] = filler
        self.slots = new

    def translate(self, committed: int) -> int | None:
        """`translateDownstream`; None where MM2 has no answer or says "too old"."""
        for upstream, downstream in self.slots:
            if upstream <= committed:
                return downstream if upstream == committed else downstream + 1
        return None


def _is_close(newer: Pair, older: Pair, i: int, j: int) -> bool:
    bound = older[0] + (1 << j) - (1 << i)
    return bound > MOST or newer[0] <= bound


def _is_apart(newer: Pair, older: Pair, i: int) -> bool:
    if newer == older:
        return True
    bound = older[0] + (1 << max(i - 2, 0))
    return bound <= MOST and newer[0] >= bound
