"""Ends a child process when this process ends, even by kill -9.

Linux's PR_SET_PDEATHSIG needs no third process, but fires when the *thread* that started the child
ends.
"""

import signal
import subprocess


class Watchdog:
    """A shell that waits for the end of a pipe that only this process holds, then signals *pid*.

    Dismiss it before the watched process is reaped, because another process may get its id.
    """

    def __init__(self, pid: int, number: signal.Signals) -> None:
        script = f'read _; kill -{int(number)} "$1"'
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            ["/bin/sh", "-c", script, "watchdog", str(pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # else Ctrl-C would end the watchdog before the watched process
        )

    def dismiss(self) -> None:
        """Ends the watchdog without signalling the watched process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
