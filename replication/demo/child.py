"""Starts child processes that Ctrl-C does not reach, and shows the end of their logs."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

LOG_LINES = 30


def start_child(
    command: Sequence[str], output: IO[bytes], cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Starts *command* with all its output in *output*.

    It has a session of its own: Ctrl-C must reach only this process, which stops it cleanly.
    """
    return subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        cwd=cwd,
        start_new_session=True,
    )


def log_end(log: Path) -> str:
    """Returns the name of *log* and its last lines, for an error."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
    return f"see {log}, which ends with:\n  " + "\n  ".join(lines or ["(nothing)"])
