"""How fast sums have grown lately. Pure."""

from collections import deque
from typing import Final

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
