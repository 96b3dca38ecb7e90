"""Counts of durations by bucket, as Prometheus has them. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Any, Final

from replication.foreign_json import number, whole

BOUNDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0,
    900.0, 3600.0,
)  # fmt: skip
"""The upper bounds of the buckets, in seconds; the last bucket has none. A timestamp of Kafka has
milliseconds and no more. ``jvm/producer/Durations.java`` has the same bounds."""

QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations in seconds.

    Args:
        counts: How many are at most as long as each of `BOUNDS`; in the end, how many there are.
        sum: Of all of them.
        longest: None is longer, as far as that is known.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    sum: float = 0.0
    longest: float = inf

    @classmethod
    def of(cls, buckets: Sequence[int], total: float, longest: float = inf) -> "Histogram":
        """Makes one of the counts of each bucket by itself, and the *total* of the durations."""
        return cls(tuple(accumulate(buckets)), total, longest)

    @property
    def count(self) -> int:
        """How many durations there are."""
        return self.counts[-1]

    def plus(self, other: "Histogram") -> "Histogram":
        """Returns this one and *other* together."""
        counts = tuple(one + two for one, two in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.sum + other.sum, max(self.longest, other.longest))

    def with_durations(self, durations: Sequence[float]) -> "Histogram":
        """Returns this one with more *durations*, in seconds."""
        if not durations:
            return self
        buckets = [0] * (len(BOUNDS) + 1)
        for duration in durations:
            buckets[bisect_left(BOUNDS, duration)] += 1
        return self.plus(Histogram.of(buckets, sum(durations)))

    def since(self, before: "Histogram") -> "Histogram":
        """Returns what was counted after *before*, an earlier look at the same."""
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return Histogram(counts, max(0.0, self.sum - before.sum))

    def quantile(self, share: float) -> float | None:
        """Returns how long *share* of the durations are at most; None without any.

        Within its bucket, as Prometheus' ``histogram_quantile`` does: in proportion, but not more
        than the longest.
        """
        if not self.count:
            return None
        rank = share * self.count
        bucket = bisect_left(self.counts, max(rank, 1e-9))
        if bucket >= len(BOUNDS):
            return BOUNDS[-1] if self.longest == inf else self.longest
        start, until = BOUNDS[bucket - 1] if bucket else 0.0, BOUNDS[bucket]
        before = self.counts[bucket - 1] if bucket else 0
        within = (until - start) * (rank - before) / (self.counts[bucket] - before)
        return min(start + within, self.longest)

    def quantiles(self, shares: Mapping[str, float] = QUANTILES) -> dict[str, float]:
        """Returns the quantiles of *shares* by their names; none without durations."""
        found = {name: self.quantile(share) for name, share in shares.items()}
        return {name: value for name, value in found.items() if value is not None}

    def document(self) -> dict[str, Any]:
        """Returns what JSON has beside quantiles: the number of durations, and the counts."""
        return {"samples": self.count, "sum": self.sum, "counts": list(self.counts)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Histogram":
        """Returns the histogram of a `document`.

        Raises:
            KeyError, TypeError, ValueError: It is none, or one with other buckets.
        """
        counts = tuple(map(whole, document["counts"]))
        if len(counts) != len(BOUNDS) + 1 or list(counts) != sorted(counts):
            raise ValueError("a histogram has other buckets")
        return cls(counts, number(document["sum"]))


RECENT_SECONDS: Final = 60.0


class RecentDurations:
    """A histogram that grows from look to look, and what of it is of the last minute.

    Attributes:
        whole: All that was ever counted.
    """

    __slots__ = ("_seen", "whole")

    def __init__(self) -> None:
        self.whole = Histogram()
        self._seen: deque[tuple[float, Histogram, float]] = deque()  # when, before, the longest

    def add(self, at: float, whole: Histogram) -> None:
        """Takes the *whole* as of *at*; its longest is that since the look before."""
        self._seen.append((at, self.whole, whole.longest))
        self.whole = replace(whole, longest=inf)

    def look(self, now: float) -> Histogram:
        """Returns what the looks of the last minute have brought."""
        seen = self._seen
        while seen and now - seen[0][0] >= RECENT_SECONDS:
            seen.popleft()
        if not seen:
            return Histogram(longest=0.0)
        longest = max(longest for _, _, longest in seen)
        return replace(self.whole.since(seen[0][1]), longest=longest)


KEPT_SECONDS: Final = 600.0
STEP_SECONDS: Final = 10.0
"""Two looks that are kept are that far apart."""


class Recent:
    """Two sums that never shrink, as seen over the last ten minutes: records and bytes, say."""

    __slots__ = ("_now", "_seen")

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float, float]] = deque()
        self._now = (0.0, 0.0, 0.0)

    def add(self, at: float, one: float, other: float = 0.0) -> None:
        """Notes both sums as of *at*, in seconds."""
        seen, self._now = self._seen, (at, one, other)
        if not seen or at - seen[-1][0] >= STEP_SECONDS:
            seen.append(self._now)
        while len(seen) > 1 and at - seen[1][0] >= KEPT_SECONDS:
            seen.popleft()

    def per_second(self, seconds: float) -> tuple[float, float] | None:
        """Returns how much both have grown in a second, over the last *seconds*.

        None until there are two looks. What is older is taken where there are no others.
        """
        at, one, other = self._now
        before = next((look for look in reversed(self._seen) if at - look[0] >= seconds), None)
        before = before or (self._seen[0] if self._seen else None)
        if before is None or at <= before[0]:
            return None
        return tuple(  # type: ignore[return-value]
            (now - then) / (at - before[0]) for now, then in ((one, before[1]), (other, before[2]))
        )

    def ratio(self) -> float | None:
        """Returns how much the second has grown for each one of the first; None if that is 0."""
        first = self._seen[0] if self._seen else self._now
        grown = self._now[1] - first[1]
        if grown > 0:
            return (self._now[2] - first[2]) / grown
        return self._now[2] / self._now[1] if self._now[1] > 0 else None
