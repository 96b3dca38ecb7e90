"""A clock that runs as fast as the machine does, and limits of time that are measured by it.

A machine that is shared with others may give a test a tenth of a core. What an idle machine does in
3 s takes it 30 s, and that is no fault of the code under test.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

TICK_SECONDS: Final = 0.1
STEAL_TICKS: Final = 20  # the kernel counts stolen time in hundredths of a second
STAT: Final = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel says at a moment, in its own units of time."""

    runnable: int = 1
    busy: int = 0
    stolen: int = 0


def share(asked: float, took: float, cores: int, before: Machine, now: Machine) -> float:
    """The share of a core that a task of this process was given.

    Args:
        asked: For so many seconds a thread wanted to sleep.
        took: So many it slept: more, if the machine did not run it when its time came.
        cores: Shared by all the tasks that want to run, of whatever program.
        before: A while ago.
        now: With the tasks that want to run, this one included.
    """
    busy, stolen = now.busy - before.busy, now.stolen - before.stolen
    granted = busy / (busy + stolen) if stolen > 0 and busy >= 0 else 1.0
    return min(1.0, asked / max(took, asked), granted * cores / max(now.runnable, cores))


def look(stat: Path = STAT) -> Machine:
    """Reads what Linux says; elsewhere only the lateness of the clock's own thread counts."""
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return Machine()
    user, nice, system, _, _, irq, softirq, stolen = map(int, lines[0].split()[1:9])
    runnable = next((line for line in lines if line.startswith("procs_running ")), "_ 1")
    return Machine(int(runnable.split()[1]), user + nice + system + irq + softirq, stolen)


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of the clock: the seconds that the machine gave, and those of the wall."""

    given: float
    wall: float


class MachineClock:
    """Counts the seconds that the machine gives, in a thread that the first question starts."""

    def __init__(self, wall: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._given = 0.0
        self._ticked = wall()
        self._looks: deque[Machine] = deque([look()], maxlen=STEAL_TICKS)
        self._thread: threading.Thread | None = None

    def now(self) -> Moment:
        """The clock's time. Between two ticks it stands still."""
        if self._thread is None:
            self._ticked = self._wall()
            self._thread = threading.Thread(target=self._run, name="machine clock", daemon=True)
            self._thread.start()
        return Moment(self._given, self._wall())

    def _run(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            self.tick(look())

    def tick(self, machine: Machine) -> None:
        """Adds what the machine gave since the last tick."""
        now = self._wall()
        took, self._ticked = now - self._ticked, now
        given = share(TICK_SECONDS, took, os.cpu_count() or 1, self._looks[0], machine)
        self._looks.append(machine)
        self._given += took * given


CLOCK: Final = MachineClock()


class Limit:
    """So many seconds of the machine's time, from now on.

    Args:
        seconds: What suffices on an idle machine with two cores.
        clock: Measures them.
        patience: So many times the seconds are given; by default as many as in all limits.
    """

    PATIENCE: ClassVar[float] = 2
    """The share is an estimate: what others do to caches, disk and memory is not in it."""
    WALL_TIMES: ClassVar[int] = 20
    """After so many times the seconds by the wall, no machine is waited for."""

    def __init__(
        self, seconds: float, clock: MachineClock = CLOCK, patience: float | None = None
    ) -> None:
        self.seconds, self._clock, self._began = seconds, clock, clock.now()
        self._patience = self.PATIENCE if patience is None else patience

    @property
    def is_over(self) -> bool:
        """Whether the time is used up."""
        now = self._clock.now()
        return (
            now.given - self._began.given >= self._patience * self.seconds
            or now.wall - self._began.wall >= self.WALL_TIMES * self.seconds
        )

    @property
    def share(self) -> float:
        """The share of a core that the machine has given since the beginning."""
        now = self._clock.now()
        wall = now.wall - self._began.wall
        return (now.given - self._began.given) / wall if wall > TICK_SECONDS else 1.0

    @property
    def given_seconds(self) -> float:
        """The seconds of the machine's time since the beginning."""
        return self._clock.now().given - self._began.given

    @property
    def wall_seconds(self) -> float:
        """The seconds since the beginning, by the wall."""
        return self._clock.now().wall - self._began.wall
