"""When topics that were set aside are tried again: at a growing interval. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Retry:
    pause_seconds: float
    at: float


class RetryTimes(Generic[KeyT]):
    """The keys that failed, and the time of the next attempt of each, by the caller's clock.

    Args:
        first_seconds: The pause after a first failure; every further one doubles it.
        longest_seconds: The longest pause.
    """

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._retries: dict[KeyT, _Retry] = {}

    def failed(self, key: KeyT, now: float) -> float:
        """Says that an attempt failed, and returns the seconds until the next one."""
        last = self._retries.get(key)
        pause = min(self._longest, last.pause_seconds * 2 if last else self._first)
        self._retries[key] = _Retry(pause, now + pause)
        return pause

    def retry_now(self, key: KeyT, now: float) -> None:
        """Makes the next attempt due; its failure counts as a first one."""
        self._retries[key] = _Retry(self._first / 2, now)

    def succeeded(self, key: KeyT) -> None:
        """Says that there is nothing left to try; the next failure is a first one."""
        self._retries.pop(key, None)

    def waiting(self, now: float) -> frozenset[KeyT]:
        """Returns the keys whose next attempt is not due yet."""
        return frozenset(key for key, retry in self._retries.items() if retry.at > now)

    def is_due(self, now: float) -> bool:
        """Returns whether any attempt is due."""
        return any(retry.at <= now for retry in self._retries.values())
