"""Makes each line of a job's output one JSON object: also what is none yet, such as the JVM's own.

spark-submit.sh starts it with ``--log-format json``, and writes to its two named pipes: the job's
standard output has its own, since a long line of it comes in several parts.

    python json_lines.py OUTPUT ERRORS    (standard library only: it runs as a file)

It ends when nobody can write to the pipes any more, or on SIGUSR1 when it has written what is left.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

CHUNK: Final = 1 << 16
WARNINGS: Final = ("warn", "error", "exception", "fatal", "fail")
"""In a line of an unknown program: whether an operator should read it."""


def entry(line: str, at: float) -> str:
    """Returns *line* as a JSON object, unchanged if it is one already.

    Args:
        line: Without its end.
        at: The time in seconds.
    """
    if line.startswith("{") and _is_object(line):
        return line
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    is_bad = any(word in line.lower() for word in WARNINGS)
    found = {
        "time": f"{seconds}.{int(at * 1000) % 1000:03d}Z",
        "level": "WARNING" if is_bad else "INFO",
        "event": "output",
        "text": line,
    }
    return json.dumps(found)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class _Pipe:
    """One of the pipes; a line that has no end yet is kept."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)  # returns as soon as the script writes
        os.set_blocking(self.number, False)
        self._rest = b""

    def read(self) -> list[str] | None:
        """Reads the lines that are there; None once nobody can write any more."""
        try:
            chunk = os.read(self.number, CHUNK)
        except BlockingIOError:
            return []
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return [_text(line) for line in whole] if chunk else None

    def rest(self) -> list[str]:
        return [_text(self._rest)] if self._rest else []


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace").rstrip("\r")


def main(paths: Sequence[str]) -> None:
    """Copies the lines of both pipes to stderr: first the JVM's, then those of the job's Python."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)  # the job still has something to say
    asked, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    output, errors = map(_Pipe, paths)
    pipes = {pipe.number: pipe for pipe in (errors, output)}
    while pipes:
        ready, _, _ = select.select([*pipes, asked], [], [])
        for number in [number for number in pipes if number in ready]:
            lines = pipes[number].read()
            _write(pipes.pop(number).rest() if lines is None else lines)
        if ready == [asked]:
            break
    for pipe in pipes.values():
        _write(pipe.rest())


def _write(lines: Sequence[str]) -> None:
    at = time.time()
    text = "".join(f"{entry(line, at)}\n" for line in lines if line.strip())
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads any more; the job must not stop for that


if __name__ == "__main__":
    main(sys.argv[1:])
