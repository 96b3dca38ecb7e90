"""A lock file on this machine. The kernel frees the lock when its process ends, kill -9 included.

While the lock is held, the file names its owner. The name may be out of date, the lock never is.
"""

import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import time
from contextlib import AbstractContextManager, suppress
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
class LockOwner:
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

    def __init__(self, file: IO[str], owner: LockOwner) -> None:
        self._file = file
        self.owner = owner

    def __exit__(self, *_: object) -> None:
        """Releases the lock."""
        self.release()

    @property
    def identity(self) -> str:
        """What tells the file from every other file of the machine."""
        status = os.fstat(self._file.fileno())
        return f"{status.st_dev}:{status.st_ino}"

    def release(self) -> None:
        """Frees the lock. A second call does nothing."""
        self._file.close()


def take_lock(path: Path, patience_seconds: float = PROBE_SECONDS) -> FileLock | None:
    """Takes the lock of *path*, created if need be; None if another process holds it.

    Args:
        path: The file.
        patience_seconds: 0 for who tries again soon anyway, and must not wait for each of many.

    Raises:
        StateError: The file cannot be written, somebody else has prepared it or its folder, or its
            file system has no locks.
    """
    deadline = time.monotonic() + patience_seconds
    file = _open(path)
    while not (_try_lock(file, path, fcntl.LOCK_EX) and _is_at(file, path)):
        if time.monotonic() > deadline:
            file.close()
            return None
        time.sleep(RETRY_SECONDS)
        if not _is_at(file, path):  # whoever tidies up has deleted it
            file.close()
            file = _open(path)
    now = datetime.now(timezone.utc)
    owner = LockOwner(socket.gethostname(), os.getpid(), f"{now:%Y-%m-%d %H:%M:%S} UTC")
    try:
        file.truncate(0)
        file.write(json.dumps(asdict(owner)))
        file.flush()
    except OSError as error:
        with suppress(OSError):  # it writes again what it could not
            file.close()
        raise _not_written(path, error) from error
    return FileLock(file, owner)


def find_owner(path: Path) -> LockOwner | None:
    """Returns the process that holds the lock of *path*, None if no process does.

    Raises:
        StateError: The file cannot be read, or its file system has no locks.
    """
    try:
        file = os.fdopen(_descriptor(path, os.O_RDONLY), encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read the lock file {path}: {error.strerror}") from error
    deadline = time.monotonic() + PROBE_SECONDS
    with file:
        while not _try_lock(file, path, fcntl.LOCK_SH):
            file.seek(0)
            try:
                return LockOwner(**json.loads(file.read()))
            except (TypeError, ValueError):  # its owner has yet to write it
                if time.monotonic() > deadline:
                    return LockOwner("unknown host", 0, "unknown")
            time.sleep(RETRY_SECONDS)
    return None


def _open(path: Path) -> IO[str]:
    """Opens the file of *path*, created if missing, which nobody else has prepared.

    A folder that every user may write to, such as ``/tmp``, may hold a folder or a link of the name
    that we would choose, made by somebody else, and we would empty the file that it leads to.

    Raises:
        StateError: Somebody else has prepared it, or it cannot be written.
    """
    try:
        make_private(path.parent)
        _check_folder(path.parent)
        descriptor = _descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise _not_written(path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise StateError(f"the lock file {path} is no file, or another file as well: remove it")
    return os.fdopen(descriptor, "a+", encoding="utf-8")


def _check_folder(folder: Path) -> None:
    """Makes sure that only this user, or the owner of the folder above, writes to *folder*."""
    found, above = folder.lstat(), folder.parent.stat()
    is_public = bool(above.st_mode & stat.S_ISVTX)
    owners = {os.geteuid()} if is_public else {os.geteuid(), above.st_uid}
    shared = 0 if is_public else above.st_mode & stat.S_IWGRP
    strangers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & ~shared
    if stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not strangers:
        return
    raise StateError(
        f"the folder of lock files {folder} is a link, belongs to another user ({found.st_uid}) "
        f"or may be written by others (mode {stat.S_IMODE(found.st_mode):o}): remove it, or set "
        "TMPDIR to a folder of this user"
    )


def _descriptor(path: Path, flags: int) -> int:
    """Opens *path* itself, not what it links to, and waits for nobody if it is a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _is_at(file: IO[str], path: Path) -> bool:
    """Returns whether *path* still leads to *file*."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except OSError:
        return False


def _not_written(path: Path, error: OSError) -> StateError:
    return StateError(
        f"cannot write the lock file {path}: {error.strerror}; check that its folder is writable "
        "and has space"
    )


def _try_lock(file: IO[str], path: Path, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        file.close()
        raise StateError(f"cannot lock the file {path}: {error.strerror}") from error
    return True
