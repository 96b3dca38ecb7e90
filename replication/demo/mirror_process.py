"""Runs the mirror as a user does: ``spark-submit.sh --config FILE`` in a child process."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from replication.demo.child import log_end, start_child
from replication.demo.watchdog import Watchdog
from replication.errors import FlowError

STOP_TIMEOUT_SECONDS = 90.0  # the script itself gives up after 60 s


class MirrorProcess:
    """A running mirror; it stops when this process ends.

    Args:
        script: The checkout's ``spark-submit.sh``.
        arguments: The script's arguments.
        log: The file for its output.
    """

    def __init__(self, script: Path, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        command = [str(script), *arguments]
        with log.open("wb") as output:
            try:
                self._process = start_child(command, output)
            except OSError as error:
                raise FlowError(f"cannot start the mirror: {script}: {error.strerror}") from error
        self._watchdog = Watchdog(self._process.pid, signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The script's process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raises FlowError with the end of the log if the mirror has ended."""
        code = self._process.poll()
        if code is not None:
            raise FlowError(
                f"the mirror ended unexpectedly with exit code {code}; {log_end(self.log)}"
            )

    def run_for(self, seconds: float) -> None:
        """Waits for *seconds*; raises FlowError as soon as the mirror ends."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.check()

    def stop(self) -> None:
        """Stops the mirror as an operator would (SIGTERM); raises FlowError if that fails."""
        already = self._process.poll()
        code = self._end() if already is None else already
        if code != 0:
            raise FlowError(
                f"the mirror ended with exit code {code} on SIGTERM; {log_end(self.log)}"
            )

    def discard(self) -> None:
        """Stops the mirror if it is still running, and ignores its exit code."""
        if self._process.poll() is None:
            self._end()
        else:
            self._watchdog.dismiss()

    def _end(self) -> int:
        self._watchdog.dismiss()
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()
