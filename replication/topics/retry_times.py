"""When topics that were set aside are tried again: at a growing interval. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from replication.backoff import Backoff

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Retry:
    failures: int
    at: float


class RetryTimes(Generic[KeyT]):
    """The keys that failed, and the time of the next attempt of each, by the caller's clock.

    Args:
        backoff: The pauses.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._retries: dict[KeyT, _Retry] = {}

    def failed(self, key: KeyT, now: float) -> float:
        """Says that an attempt failed, and returns the seconds until the next one."""
        failures = self._retries[key].failures + 1 if key in self._retries else 1
        pause = self._backoff.after(failures)
        self._retries[key] = _Retry(failures, now + pause)
        return pause

    def retry_now(self, key: KeyT, now: float) -> None:
        """Makes the next attempt due; its failure counts as a first one."""
        self._retries[key] = _Retry(0, now)

    def succeeded(self, key: KeyT) -> None:
        """Says that there is nothing left to try; the next failure is a first one."""
        self._retries.pop(key, None)

    def waiting(self, now: float) -> frozenset[KeyT]:
        """Returns the keys whose next attempt is not due yet."""
        return frozenset(key for key, retry in self._retries.items() if retry.at > now)

    def is_due(self, now: float) -> bool:
        """Returns whether any attempt is due."""
        return any(retry.at <= now for retry in self._retries.values())
