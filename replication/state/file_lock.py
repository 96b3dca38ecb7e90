"""A lock file on this machine. The kernel frees the lock when its process ends, kill -9 included.

While the lock is held, the file names its owner. The name may be out of date, the lock never is.
"""

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from replication.errors import StateError
from replication.state.paths import make_private

PROBE_SECONDS = 0.5
"""How long `take_lock` retries: `find_owner` holds the lock for an instant while it looks."""

RETRY_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a lock. ``since`` is UTC, to the second."""

    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"{self.host}, process {self.pid}, since {self.since}"

    @property
    def address(self) -> str:
        """The process in the name of a file."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:12]


class FileLock(AbstractContextManager["FileLock"]):
    """A lock that this process, its *owner*, holds until `release`."""

    def __init__(self, file: IO[str], owner: Owner) -> None:
        self._file, self.owner = file, owner

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()

    @property
    def identity(self) -> str:
        """What tells the file from every other file of the machine."""
        status = os.fstat(self._file.fileno())
        return f"{status.st_dev}:{status.st_ino}"

    def release(self) -> None:
        """Frees the lock. A second call does nothing."""
        self._file.close()


def take_lock(path: Path) -> FileLock | None:
    """The lock of *path*, which is created if it does not exist; None if another process holds it.

    Raises:
        StateError: The file cannot be written, or its file system has no locks.
    """
    try:
        make_private(path.parent)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise StateError(f"cannot write the lock file {path}: {error.strerror}") from error
    deadline = time.monotonic() + PROBE_SECONDS
    while not _try_lock(file, path, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            file.close()
            return None
        time.sleep(RETRY_SECONDS)
    now = datetime.now(timezone.utc)
    owner = Owner(socket.gethostname(), os.getpid(), f"{now:%Y-%m-%d %H:%M:%S} UTC")
    file.truncate(0)
    file.write(json.dumps(asdict(owner)))
    file.flush()
    return FileLock(file, owner)


def find_owner(path: Path) -> Owner | None:
    """The process that holds the lock of *path*, None if no process does.

    Raises:
        StateError: The file cannot be read, or its file system has no locks.
    """
    try:
        file = path.open(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read the lock file {path}: {error.strerror}") from error
    deadline = time.monotonic() + PROBE_SECONDS
    with file:
        while not _try_lock(file, path, fcntl.LOCK_SH):
            file.seek(0)
            try:
                return Owner(**json.loads(file.read()))
            except (TypeError, ValueError):  # its owner has yet to write it
                if time.monotonic() > deadline:
                    return Owner("unknown host", 0, "unknown")
            time.sleep(RETRY_SECONDS)
    return None


def _try_lock(file: IO[str], path: Path, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        file.close()
        raise StateError(f"cannot lock the file {path}: {error.strerror}") from error
    return True
