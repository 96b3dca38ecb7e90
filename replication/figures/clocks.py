"""Clocks: one that nobody sets, and how far that of a broker is ahead of this machine's. Pure.

A machine's clock may be set by an hour while a process runs. What was a minute ago is still a
minute ago, so whatever is subtracted from another time of this process is `steady`; what is shown
as a time of day is what the machine's clock would call it now (`wall`).

A broker's clock is known where it stamps a record: the stamp was made between the sending of the
record and its acknowledgement. Each record gives such an interval, and the truth is in all of them.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

_BEGUN_AT, _BEGUN = time.time(), time.monotonic()

MOST_SKEW_SECONDS: Final = 1.0
"""A clock that is off by more is worth a word: lag, latency and retention are off by as much."""

STAMP_SECONDS: Final = 0.001
"""Kafka cuts its stamps to milliseconds."""

KEPT_STAMPS: Final = 20


EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# each of them has a day on both sides, so that it is a time in every time zone as well
EARLIEST: Final = datetime(1, 1, 2, tzinfo=timezone.utc)
LATEST: Final = datetime(9999, 12, 31, tzinfo=timezone.utc)
_SPAN: Final = (EARLIEST - EPOCH).total_seconds(), (LATEST - EPOCH).total_seconds()


def utc(seconds: float) -> datetime:
    """Returns epoch *seconds* as a time in UTC, to the millisecond; the only way from one to it.

    A producer chooses the timestamps of its records, and may take microseconds for milliseconds.
    What no datetime holds is `EARLIEST` or `LATEST`.
    """
    if seconds < _SPAN[0]:
        return EARLIEST
    if not seconds < _SPAN[1]:  # what is no number is neither less nor more
        return LATEST
    return EPOCH + timedelta(milliseconds=round(seconds * 1000))


def steady() -> float:
    """Returns the time in epoch seconds, had nobody set the clock since the process began."""
    return _BEGUN_AT + time.monotonic() - _BEGUN


def jumped() -> float:
    """Returns how far the machine's clock was set ahead since the process began, in seconds."""
    return time.time() - steady()


def wall(at: float) -> float:
    """Returns what the machine's clock would now call the `steady` time *at*."""
    return at + jumped()


@dataclass(frozen=True, slots=True)
class Skew:
    """How far a clock is ahead of this machine's.

    Args:
        seconds: The middle of what is possible; negative if it is behind.
        margin: How far the truth may be from it.
    """

    seconds: float
    margin: float

    @property
    def is_large(self) -> bool:
        """Whether it is certain that the clocks differ by more than `MOST_SKEW_SECONDS`."""
        return abs(self.seconds) - self.margin > MOST_SKEW_SECONDS


class SkewMeter:
    """What the newest stamps of one broker say of its clock."""

    def __init__(self) -> None:
        self._found: deque[tuple[float, float]] = deque(maxlen=KEPT_STAMPS)

    def add(self, sent: float, acknowledged: float, stamped: float) -> None:
        """Takes a record that the broker has *stamped*, all times in epoch seconds.

        A stamp that contradicts the earlier ones tells of a clock that was set: they are forgotten.
        """
        least, most = stamped - acknowledged, stamped + STAMP_SECONDS - sent
        if most < least:  # this machine's clock was set between the two
            return
        self._found.append((least, most))
        if self._bounds[0] > self._bounds[1]:
            self._found.clear()
            self._found.append((least, most))

    @property
    def skew(self) -> Skew | None:
        """How far the clock is ahead; None before the first stamp."""
        if not self._found:
            return None
        least, most = self._bounds
        return Skew((least + most) / 2, (most - least) / 2)

    @property
    def _bounds(self) -> tuple[float, float]:
        return max(least for least, _ in self._found), min(most for _, most in self._found)


def worst(skews: Iterable[Skew]) -> Skew | None:
    """Returns the skew that is farthest from 0; None of none: each broker has its own clock."""
    return max(skews, key=lambda one: abs(one.seconds), default=None)


def skew_text(alias: str, skew: Skew) -> str:
    """Returns how far the clock of cluster *alias* is off, as a sentence."""
    where = "ahead of" if skew.seconds > 0 else "behind"
    return f"the clock of cluster {alias} is {abs(skew.seconds):.1f} s {where} this machine's"


def skew_step(alias: str) -> str:
    """Returns what to do about it."""
    return f"set this machine's clock and those of {alias}'s brokers by NTP: chronyc tracking"
