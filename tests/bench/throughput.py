"""How fast a contender copies a full topic, and how much CPU and memory that takes.

Progress is read from the log ends of the target; nothing is consumed during the race.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.load import Log
from tests.bench.usage import Usage
from tests.support.running_process import RunningProcess

POLL_SECONDS = 0.2
START_TIMEOUT_SECONDS = 240.0  # on a busy machine
SLOWEST_RECORDS_PER_SECOND = 5_000
# The JVM has warmed up after the first third; near the end some partitions finish before others.
FROM_SHARE, UNTIL_SHARE = 1 / 3, 0.95


@dataclass(frozen=True, slots=True)
class Throughput:
    """The figures of the steady part of a race.

    Args:
        records: Records copied in that part.
        seconds: Its length.
        used: What the contender used in that part.
        start_seconds: From the contender's start to its first record on the target.
    """

    records: int
    seconds: float
    used: Usage
    start_seconds: float

    @property
    def records_per_second(self) -> float:
        """Wall clock."""
        return self.records / self.seconds

    @property
    def cpu_us_per_record(self) -> float:
        """CPU microseconds of the copying processes."""
        return self.used.cpu_seconds / self.records * 1e6

    @property
    def records_per_cpu_second(self) -> float:
        """The inverse: throughput per CPU second."""
        return self.records / self.used.cpu_seconds if self.used.cpu_seconds else float("nan")


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    copied: int
    used: Usage


def throughput(
    process: RunningProcess, copy: Log, records: int, used: Callable[[], Usage]
) -> Throughput:
    """Watches *process* fill *copy* with *records*; returns when all are copied.

    Args:
        process: The contender.
        copy: The remote topic.
        records: Their number on the source.
        used: What the contender has used since its start.

    Raises:
        ProcessError: It failed, took too long, or wrote more records than the source has.
    """
    began = time.monotonic()
    deadline = began + START_TIMEOUT_SECONDS + records / SLOWEST_RECORDS_PER_SECOND
    first = until = None
    begin = _Mark(began, 0, Usage())
    while True:
        mark = _Mark(time.monotonic(), copy.records(), used())
        if first is None and mark.copied:
            first = mark.at
        if until is None and mark.copied >= records * UNTIL_SHARE:
            until = mark
        if begin.copied < records * FROM_SHARE and until is None:
            begin = mark
        if first is not None and until is not None and mark.copied >= records:
            break
        process.check()
        if mark.at > deadline:
            raise process.failure(f"copied {mark.copied} of {records} records in time")
        time.sleep(POLL_SECONDS)  # between two checks; there is no event to wait for
    if mark.copied > records:
        raise process.failure(f"wrote {mark.copied} records, but the source has only {records}")
    return Throughput(
        until.copied - begin.copied, until.at - begin.at, until.used - begin.used, first - began
    )
