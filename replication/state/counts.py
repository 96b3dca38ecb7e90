"""What a process has written to the tables since it began, counted beside the writing. Pure."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from replication.figures.clocks import steady
from replication.model import Flow, LossCause, NewEvent

LAST: Final = 50
"""Events of a flow that are kept."""


@dataclass(slots=True)
class EventCounts:
    """The events of one flow.

    Attributes:
        kinds: How many there are of each kind.
        given_up: Source offsets lost or repeated by decisions, by cause.
        given_up_at: When the last of them was, in `steady` time; None if there was none.
        last: The last ones, each with its time in epoch seconds, the oldest first.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    given_up: Counter[LossCause] = field(default_factory=Counter)
    given_up_at: float | None = None
    last: deque[tuple[float, NewEvent]] = field(default_factory=lambda: deque(maxlen=LAST))


@dataclass(slots=True)
class WriteCounts:
    """The commits to one table: how many, how many failed, how long they took, the last failure.

    That is in `steady` time.
    """

    commits: int = 0
    failures: int = 0
    seconds: float = 0.0
    failed_at: float | None = None


class Counts:
    """The counts of one process. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: dict[Flow, EventCounts] = defaultdict(EventCounts)
        self._writes: dict[str, WriteCounts] = defaultdict(WriteCounts)

    def add_event(self, flow: Flow, event: NewEvent) -> None:
        """Counts *event* of *flow*."""
        with self._lock:
            counts, now = self._events[flow], time.time()
            counts.kinds[event.kind] += 1
            counts.last.append((now, event))
            if event.cause is not None:
                span = (event.details.get(key, 0) for key in ("offset_until", "offset_from"))
                until, start = map(int, span)
                if (given_up := max(0, until - start)) > 0:
                    counts.given_up[event.cause] += given_up
                    counts.given_up_at = steady()

    @contextmanager
    def write(self, table: str) -> Iterator[None]:
        """Counts the commit to *table* that the block makes."""
        begun, failed = time.monotonic(), True
        try:
            yield
            failed = False
        finally:
            with self._lock:
                counts = self._writes[table]
                counts.commits += not failed
                counts.failures += failed
                counts.failed_at = steady() if failed else counts.failed_at
                counts.seconds += time.monotonic() - begun

    def events(self, flow: Flow) -> EventCounts:
        """Returns a copy of the counts of *flow*."""
        with self._lock:
            found = self._events[flow]
            last = deque(found.last, LAST)
            return EventCounts(
                Counter(found.kinds), Counter(found.given_up), found.given_up_at, last
            )

    def writes(self) -> Mapping[str, WriteCounts]:
        """Returns a copy of the counts of each table that was written."""
        with self._lock:
            return {
                table: WriteCounts(found.commits, found.failures, found.seconds, found.failed_at)
                for table, found in self._writes.items()
            }
