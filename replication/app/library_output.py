"""Takes what libraries in C and Rust print on stderr, past Python, and logs it.

delta-rs does its work in threads of Rust. When a disk is full one of them panics, and Rust prints
that by itself, while the error that says what failed comes back to Python as well. Such a text is
for a developer.
"""

import atexit
import faulthandler
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from replication.log import Log

log = Log(__name__)

STDERR: Final = 2
LAST_LINES_SECONDS: Final = 1.0
PANIC: Final = re.compile(r"thread '.*' (\(\d+\) )?panicked at ")
PANIC_ENDS: Final = "note: "


def take_library_output() -> None:
    """Logs from now on what is written to the descriptor of stderr; Python's own stays its own.

    Must come before the log is configured, whose lines go where stderr was.
    """
    sys.stderr.flush()
    before = os.fdopen(os.dup(STDERR), "w", buffering=1, errors="backslashreplace")
    reader, writer = os.pipe()
    os.dup2(writer, STDERR)
    os.close(writer)
    sys.stderr = before
    faulthandler.enable(before)  # when the process crashes, nobody reads the pipe any more
    lines = os.fdopen(reader, encoding="utf-8", errors="replace")
    thread = threading.Thread(target=_log, args=[lines], name="library output", daemon=True)
    thread.start()
    atexit.register(_end, before, thread)


def _end(before: TextIO, thread: threading.Thread) -> None:
    os.dup2(before.fileno(), STDERR)  # nobody writes to the pipe any more
    thread.join(LAST_LINES_SECONDS)


def _log(lines: Iterable[str]) -> None:
    for level, line in levels(lines):
        if level == logging.DEBUG:
            log.debug("library_output", text=line)
        else:
            log.warning("library_output", text=line)


def levels(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields the *lines* but empty ones with their levels: those of a panic are for a developer."""
    is_panic = False
    for line in lines:
        is_panic = is_panic or PANIC.match(line) is not None
        if line.strip():
            yield logging.DEBUG if is_panic else logging.WARNING, line.rstrip()
        is_panic = is_panic and not line.startswith(PANIC_ENDS)
