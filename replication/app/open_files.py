"""Says that a process is about to run out of open files, and what to raise, before calls fail.

Each library has its own words for it, and some call it a cluster that does not answer. Linux tells
how many files a process has open; elsewhere nothing is watched.
"""

import os
import re
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from replication.log import Log

log = Log(__name__)

POLL_SECONDS: Final = 5.0
REMIND_SECONDS: Final = 60.0
NEARLY_ALL: Final = 0.9
_LIMIT: Final = re.compile(r"Max open files +(\d+)")


def watch_open_files(processes: Collection[int]) -> None:
    """Logs ``open_files`` as long as one of *processes* has nearly all files open that it may."""
    watch = threading.Thread(target=_watch, args=(processes,), name="open-files", daemon=True)
    watch.start()


def _watch(processes: Collection[int]) -> None:
    said_at = dict.fromkeys(processes, -REMIND_SECONDS)
    while True:
        for process in processes:
            text = shortage(*open_files(process))
            if text and time.monotonic() - said_at[process] >= REMIND_SECONDS:
                said_at[process] = time.monotonic()
                log.error("open_files", pid=process, text=text)
        time.sleep(POLL_SECONDS)


def open_files(process: int) -> tuple[int, int]:
    """Returns how many files *process* has open, and may have open; 0 twice if that is unknown."""
    folder = Path("/proc", str(process))
    try:
        found = _LIMIT.search((folder / "limits").read_text())
        with os.scandir(folder / "fd") as opened:  # there are thousands
            return sum(1 for _ in opened), int(found[1]) if found else 0
    except OSError:
        return 0, 0


def shortage(opened: int, limit: int) -> str:
    """Returns what follows from *opened* of *limit* files, and the next step; "" if nothing."""
    if opened < NEARLY_ALL * limit or not limit:
        return ""
    return (
        f"{opened} of {limit} files are open, and beyond that the process cannot connect, read or "
        "write: raise the limit (ulimit -n; LimitNOFILE= of a systemd unit) and start the job "
        "again; each partition in Real-Time Mode takes about six"
    )
