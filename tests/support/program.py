"""What programs beside the tests share: how they end, where they print, where their files lie."""

import os
import signal
import sys
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from replication.config.home import home

WIDTH_OF_A_FILE = 140


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP exit this program, which ends every process it has started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))


def new_console() -> Console:
    """Prints to stdout; to a file, wide enough for the tables."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE, highlight=False)


def new_folder_name(program: str) -> Path:
    """The path of a folder for one run of *program*, named by the time and the process."""
    began = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return home().absolute() / program / f"{began}-{os.getpid()}"
