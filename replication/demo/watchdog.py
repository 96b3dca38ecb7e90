"""Ends a child process when this process is gone, however it went (a kill -9 included).

Linux's PR_SET_PDEATHSIG would do it without a third process, but fires as soon as the *thread*
that started the child ends.
"""

import signal
import subprocess


class Watchdog:
    """A shell that waits for the end of a pipe only this process holds, and then signals *pid*.

    Dismiss it before the watched process is reaped: its id may become somebody else's.
    """

    def __init__(self, pid: int, number: signal.Signals) -> None:
        script = f'read _; kill -{int(number)} "$1"'
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            ["/bin/sh", "-c", script, "watchdog", str(pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # or Ctrl-C would end the watchdog before what it watches
        )

    def dismiss(self) -> None:
        """Ends the watch without a signal to the watched process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
