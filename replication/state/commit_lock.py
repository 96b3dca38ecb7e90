"""One thread at a time, of whichever process, commits to a Delta table of a local folder.

On ``file:``, two JVMs that commit the same version both succeed, and one commit is lost. The same
happens between a JVM and delta-rs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from replication.errors import StateError
from replication.state.file_lock import find_owner, take_lock

TIMEOUT_SECONDS: Final = 120.0


@contextmanager
def hold_commit_lock(path: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Holds the lock file *path* for the block.

    Raises:
        StateError: It is held for too long, or the file cannot be written.
    """
    deadline = time.monotonic() + timeout_seconds
    while (lock := take_lock(path)) is None:  # it waits a little itself
        if time.monotonic() > deadline:
            owner = find_owner(path) or "another process"
            raise StateError(f"cannot lock {path} within {timeout_seconds:g} s: held by {owner}")
    try:
        yield
    finally:
        lock.release()
