"""How far a partition's copy is behind, in records and in seconds. Pure.

Nobody reads the record that waits: its age follows from when the log's ends were seen. The record
at position P was appended after the newest look that found an end at or before P, and is not older
than its predecessor. Both are upper bounds of its age, and the lesser one is shown::

    looks       S1        S2        S3        S4       now
    ends         7         9         9        12
    log      5 6 | 7     8 |         |  9 10 11|  12
    copied   5 6   7     8                               P = 9
                                     B = S3: at that time record 9 did not exist yet

The ends are asked for first, and the position is taken a moment later. The other way round a
healthy flow would always show the records of the last moment as lag.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

EXACT_LOOKS: Final = 16
"""The newest ends of different offsets; each is kept."""

LOOKS_OF_A_SPACING: Final = 4
"""Beyond them, for each spacing; the next one is twice as long."""

SPACINGS: Final = 12
"""How many there are. With a look each 5 s this reaches further back than a day."""

MOST_SKEW_SECONDS: Final = 1.0
"""Clocks that differ by less are taken for the same."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a partition's copy is behind.

    Args:
        records: Source offsets that are not acknowledged. An upper bound of records: transaction
            markers and compacted records have offsets as well.
        seconds: How long the oldest of them has been on the source; None if that is unknown.
    """

    records: int
    seconds: float | None


class PartitionLag:
    """The ends of one log that were seen, as far as they tell how old what is not copied is.

    A partition without lag keeps one end. While it lags, it keeps up to 64, the older the sparser.
    """

    __slots__ = ("_base", "_end", "_is_ahead", "_position", "_record", "_spacings")

    def __init__(self) -> None:
        self._position = self._end = -1
        self._is_ahead = False
        self._base: float | None = None  # the newest look with an end at or before the position
        self._record: tuple[int, float] | None = None  # an offset and the record's timestamp
        self._spacings: list[deque[tuple[float, int]]] = []  # newest first; looks oldest first

    def saw(self, at: float, end: int) -> None:
        """Notes that the log ended at *end* when it was looked at, *at* a time."""
        if end < self._end:  # another log of the same name, or one that has lost its end
            self._forget()
            self._end = -1
        is_same, self._end = end == self._end, end
        if end <= self._position:
            self._base = at
            self._spacings.clear()
        elif is_same and self._spacings:
            self._spacings[0][-1] = (at, end)  # the later one says more
        else:
            self._add((at, end))

    def moved(self, position: int) -> None:
        """Notes the next offset that the target has not acknowledged."""
        if position < self._position:  # copied once more
            self._forget()
        self._position = position
        for looks in reversed(self._spacings):
            while looks and looks[0][1] <= position:
                self._base = looks.popleft()[0]
        while self._spacings and not self._spacings[-1]:
            self._spacings.pop()

    def read(self, position: int, timestamp: float) -> None:
        """Notes the *timestamp* of the record at *position*, where no look tells its age."""
        self._record = (position, timestamp)

    @property
    def is_unknown(self) -> bool:
        """Whether something waits whose age no look tells: it was there before the first."""
        return self._end > self._position >= 0 and self._base is None

    @property
    def lacks_record(self) -> bool:
        """Whether the record at the position was not read."""
        return self._record is None or self._record[0] != self._position

    def look(self, now: float, newest: float | None) -> Lag:
        """Returns the lag as of *now*, once the end and the position are known.

        Args:
            now: The time at which the position was taken.
            newest: The newest timestamp of the records before the position, by the clocks of their
                producers or of the source; None if it is unknown.
        """
        is_plausible = newest is not None and self._is_plausible(newest, now)
        records = max(0, self._end - self._position)
        if not records:
            return Lag(0, 0.0)
        known = [] if self._base is None else [self._base]
        if newest is not None and is_plausible:
            known.append(newest)
        if not known and self._record is not None and self._record[0] == self._position:
            known.append(self._record[1])
        return Lag(records, max(0.0, now - max(known)) if known else None)

    def _is_plausible(self, newest: float, now: float) -> bool:
        """Returns whether a record before the position may have existed at *newest*.

        A producer whose clock is ahead makes what waits look younger. Where that was seen once,
        timestamps are not believed any more: the looks suffice.
        """
        later = self._spacings[-1][0][0] if self._spacings else now  # what waits existed by then
        excess = newest - min(later, now)
        self._is_ahead = self._is_ahead or excess > MOST_SKEW_SECONDS
        return excess <= 0 and not self._is_ahead

    def _forget(self) -> None:
        self._base = self._record = None
        self._spacings.clear()

    def _add(self, look: tuple[float, int]) -> None:
        for spacing in range(SPACINGS + 1):
            if spacing == len(self._spacings):
                self._spacings.append(deque())
            looks = self._spacings[spacing]
            looks.append(look)
            if len(looks) <= (LOOKS_OF_A_SPACING if spacing else EXACT_LOOKS):
                return
            look = self._goes_on(looks.popleft(), looks.popleft(), spacing + 1)

    def _goes_on(
        self, first: tuple[float, int], second: tuple[float, int], spacing: int
    ) -> tuple[float, int]:
        """Returns which of two looks is kept at the next *spacing*: the one that is missed more.

        Without the first, what waits since then seems to be as old as the look before it: while
        nothing came, that may be long ago.
        """
        older = self._spacings[spacing : spacing + 1]
        before = older[0][-1][0] if older else self._base
        is_far = before is not None and first[0] - before > second[0] - first[0]
        return first if is_far else second


# Clocks: one that nobody sets, and how far that of a broker is ahead of this machine's.
#
# A machine's clock may be set by an hour while a process runs. What was a minute ago is still a
# minute ago, so whatever is subtracted from another time of this process is `steady`; what is
# shown as a time of day is what the machine's clock would call it now (`wall`).
#
# A broker's clock is known where it stamps a record: the stamp was made between the sending of the
# record and its acknowledgement. Each record gives such an interval, and the truth is in all of
# them.

_BEGUN_AT, _BEGUN = time.time(), time.monotonic()


STAMP_SECONDS: Final = 0.001
"""Kafka cuts its stamps to milliseconds."""

KEPT_STAMPS: Final = 20


EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# each of them has a day on both sides, so that it is a time in every time zone as well
EARLIEST: Final = datetime(1, 1, 2, tzinfo=timezone.utc)
LATEST: Final = datetime(9999, 12, 31, tzinfo=timezone.utc)
_SPAN: Final = (EARLIEST - EPOCH).total_seconds(), (LATEST - EPOCH).total_seconds()


def duration_text(seconds: float) -> str:
    """Returns *seconds* in their two greatest units: ``12 s``, ``3 min 32 s``, ``2 d``."""
    left, found = max(0, round(seconds)), list[str]()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            found.append(f"{count} {unit}")
        if found and (not count or len(found) == 2):  # noqa: PLR2004 - units
            break
    return " ".join(found) or "0 s"


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
