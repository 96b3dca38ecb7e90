"""Which process runs a job of a flow, on a local state directory: known before Spark starts.

A process takes these locks before anything else, so that a second start is refused at once and a
stop request reaches the process that runs the job. Who may write the tables depends on the lease.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from replication.errors import LeaseError
from replication.model import RECORDS, Flow, Job
from replication.state import file_lock
from replication.state.file_lock import PROBE_SECONDS, FileLock, LockOwner, take_lock
from replication.state.folder import StateFolder
from replication.state.paths import job_name, local_path

ENDING_SECONDS = 1.5
"""How long a killed process may take to end."""

RETRY_SECONDS = 0.05


def find_job_owner(state_dir: str, flow: Flow, job: Job = "mirror") -> LockOwner | None:
    """Finds the process that runs *job* for *flow*; None if there is none or *state_dir* is remote.

    Raises:
        StateError: The state directory cannot be read.
    """
    path = job_lock_path(state_dir, flow, job)
    return file_lock.find_owner(path) if path else None


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
            time.sleep(RETRY_SECONDS)


class JobLocks:
    """The locks of this process for *job*; `hold_jobs` makes them."""

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
        if path is None or flow in self._ended or not self._is_folder_there():
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

    def _is_folder_there(self) -> bool:
        return self._folder is not None and self._folder.is_there()

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
