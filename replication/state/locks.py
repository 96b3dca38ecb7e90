"""Locks between the processes of one machine: of a file, of a commit, of a job."""

import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Final

from replication.errors import LeaseError, StateError
from replication.model import RECORDS, Flow, Job
from replication.state.folder import StateFolder, job_name, local_path, make_private

# A lock file on this machine. The kernel frees the lock when its process ends, kill -9 included.
#
# While the lock is held, the file names its owner. The name may be out of date, the lock never is.

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


TIMEOUT_SECONDS: Final = 120.0


@contextmanager
def hold_commit_lock(path: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Holds the lock file *path* for the block, in which one thread commits to a local table.

    On ``file:``, two JVMs that commit the same version both succeed, and one commit is lost. The
    same happens between a JVM and delta-rs.

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


ENDING_SECONDS = 1.5
"""How long a killed process may take to end."""

JOB_RETRY_SECONDS = 0.05


def find_job_owner(state_dir: str, flow: Flow, job: Job = "mirror") -> LockOwner | None:
    """Finds the process that runs *job* for *flow*; None if there is none or *state_dir* is remote.

    Raises:
        StateError: The state directory cannot be read.
    """
    path = job_lock_path(state_dir, flow, job)
    return find_owner(path) if path else None


def refuse_second_process(state_dir: str, flows: Collection[Flow], job: Job) -> None:
    """Raises an error if another process carries the records of one of *flows*.

    Waits a moment for one that has just been killed: its lock is free once its memory is.

    Raises:
        LeaseError: Another process does; the text names it.
        StateError: The state directory cannot be read.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    for flow in flows if job in RECORDS else ():
        while (owner := find_job_owner(state_dir, flow, job)) is not None:
            if time.monotonic() >= deadline:
                raise already_running(flow, owner)
            time.sleep(JOB_RETRY_SECONDS)


class JobLocks:
    """The locks of this process for *job* on a local state directory; `hold_jobs` makes them.

    They are taken before anything else, so that a second start is refused at once and a stop
    request reaches the process that runs the job. Who may write the tables depends on the lease.
    """

    def __init__(self, state_dir: str, job: Job) -> None:
        self._state_dir = state_dir
        self._job = job
        folder = local_path(state_dir)
        self._folder = StateFolder(folder) if folder else None
        self._locks: dict[Flow, FileLock] = {}
        self._ended: set[Flow] = set()

    def holds(self, flow: Flow, patience_seconds: float = 0.0) -> bool:
        """Takes the lock of *flow* if it has become free; returns whether this process has it.

        A standby asks this for each of its flows every second, so by default it waits for none.
        """
        if flow in self._locks:
            return True
        path = job_lock_path(self._state_dir, flow, self._job)
        if path is None or self._folder is None or flow in self._ended:
            return False
        if not self._folder.is_there():
            return False
        if (lock := take_lock(path, patience_seconds)) is not None:
            self._locks[flow] = lock
        return flow in self._locks

    def begin(self) -> None:
        """Makes the folder of the locks.

        Raises:
            StateError: The state directory cannot be written.
        """
        if self._folder is not None:
            self._folder.begin()

    def address(self, flow: Flow) -> str:
        """Returns the address of this process in requests to *flow*, whose lock it holds."""
        return self._locks[flow].owner.address

    def release(self, flow: Flow) -> None:
        """Frees the lock of *flow*, whose job has ended here; this process never takes it again."""
        self._ended.add(flow)
        if flow in self._locks:
            self._locks.pop(flow).release()


@contextmanager
def hold_jobs(
    state_dir: str, flows: Collection[Flow], job: Job, *, standby: bool = False
) -> Iterator[JobLocks]:
    """Holds the locks of *job* of *flows* for the block.

    A second process of a job that carries records is refused, unless it is a *standby*. A second
    process of any other job always waits: `JobLocks.holds` is false until the first one ends. On a
    remote state directory there are no locks, and nobody is refused here.

    Raises:
        LeaseError: Another process carries the records of one of *flows*.
        StateError: The state directory cannot be written.
    """
    locks = JobLocks(state_dir, job)
    locks.begin()
    try:
        may_wait = standby or job not in RECORDS
        for flow in flows:
            is_held = locks.holds(flow, 0.0 if may_wait else PROBE_SECONDS)
            if not is_held and not may_wait and local_path(state_dir):
                raise already_running(flow, find_job_owner(state_dir, flow, job))
        yield locks
    finally:
        for flow in flows:
            locks.release(flow)


def already_running(name: object, owner: object) -> LeaseError:
    """Returns the refusal of a second process; *owner* says which one is first, None if unknown."""
    return LeaseError(
        f"flow {name} is already running: {owner or 'another process'}. Stop it first with "
        "python -m replication stop, or start this process with --standby"
    )


def job_lock_path(state_dir: str, flow: Flow, job: Job) -> Path | None:
    """Returns the lock file of *job* of *flow*, None on a remote state directory."""
    folder = local_path(state_dir)
    return folder / "_locks" / f"{job_name(flow, job)}.job.lock" if folder else None
