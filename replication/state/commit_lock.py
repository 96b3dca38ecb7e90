"""One process at a time commits to a Delta table of a local folder.

On ``file:`` two JVMs that commit the same version are both told that they have won, and one commit
is gone. Threads of one process may commit together: they share a JVM, which Delta keeps in order.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replication.errors import StateError
from replication.state.file_lock import FileLock, find_owner, take_lock

TIMEOUT_SECONDS: Final = 120.0
SHARE_SECONDS: Final = 1.0
"""Threads may join a commit that began so long ago; later ones wait, so that other processes get
their turn."""

RETRY_SECONDS: Final = 0.02


@dataclass(slots=True)
class _Held:
    """The lock of one file, with the number of threads that use it."""

    lock: FileLock
    since: float
    threads: int = 1


_held: dict[Path, _Held] = {}
_guard = threading.Lock()


@contextmanager
def hold_commit_lock(path: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Holds the lock file *path* for the block, alone or with other threads of this process.

    Raises:
        StateError: Another process holds it for too long, or the file cannot be written.
    """
    deadline = time.monotonic() + timeout_seconds
    while not _take(path):
        if time.monotonic() > deadline:
            owner = find_owner(path) or "another process"
            raise StateError(f"cannot lock {path} within {timeout_seconds:g} s: held by {owner}")
        time.sleep(RETRY_SECONDS)
    try:
        yield
    finally:
        _leave(path)


def _take(path: Path) -> bool:
    with _guard:
        held = _held.get(path)
        if held is None:
            lock = take_lock(path)
            if lock is not None:
                _held[path] = _Held(lock, time.monotonic())
            return lock is not None
        if time.monotonic() - held.since > SHARE_SECONDS:
            return False
        held.threads += 1
        return True


def _leave(path: Path) -> None:
    with _guard:
        held = _held[path]
        held.threads -= 1
        if not held.threads:
            _held.pop(path).lock.release()
