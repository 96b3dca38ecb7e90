"""A program that runs beside a test or a benchmark, and whose log is shown when it fails."""

import contextlib
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from replication.demo.brokers import Watchdog, log_end, start_child
from tests.support.gate.clock import Limit
from tests.support.local import REPOSITORY
from tests.support.process_tree import family, kill
from tests.support.waiting import Late

STOP_TIMEOUT_SECONDS = 75.0  # spark-submit.sh gives its job 60 s


class ProcessError(Exception):
    """A program failed; the text has the end of its log."""


class RunningProcess:
    """A running program. It ends, with all its processes, at the end of the ``with`` block.

    Args:
        name: Of the program, for messages.
        command: Starts it.
        log: Gets all its output.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self._log = name, log
        with log.open("wb") as output:
            self._process = start_child(command, output, REPOSITORY)
        self._watchdog = Watchdog(self._process.pid, signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The root of its process tree."""
        return self._process.pid

    def check(self) -> None:
        """Raises ProcessError if it has failed. A clean end is no failure."""
        if self._process.poll():
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def while_running(self, condition: Callable[[], object]) -> Callable[[], object]:
        """*condition*, for a wait that raises ProcessError as soon as the program has failed."""

        def look() -> object:
            self.check()
            return condition()

        return look

    def wait(self, seconds: float) -> int:
        """Waits for the end of the program and returns its exit code."""
        limit = Limit(seconds)
        while not self.has_ended(0.1):
            if limit.is_over:
                late = Late(f"{self.name} did not end", limit)
                raise self.failure(f"did not end within {seconds} s") from late
        return int(self._process.returncode)

    def has_ended(self, seconds: float) -> bool:
        """Whether it ends within *seconds*, with whatever exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def end(self) -> int:
        """Asks the program to end (SIGTERM), waits for it, and returns its exit code."""
        self._process.terminate()
        return self.wait(STOP_TIMEOUT_SECONDS)

    def failure(self, what: str) -> ProcessError:
        """An error that says *what* happened and shows the end of the log."""
        return ProcessError(f"{self.name} {what}; {log_end(self._log)}")

    def __enter__(self) -> "RunningProcess":  # noqa: PYI034 - typing has Self from 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.dismiss()
        tree = family(self.pid)
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_SECONDS)
        kill(tree)  # all have ended already, unless something went wrong
        self._process.wait()
