"""The lease: the right to write for a flow, held by one process per state directory.

On a local state directory the kernel's file lock decides: it ends with its process. Elsewhere the
``leases`` table decides: the owner renews its row, and a row that was not renewed for
`EXPIRY_SECONDS` has expired. A claim carries Delta's transaction version, so that one of two
claims to the same epoch wins. In both cases the table records who ran when.
"""

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import Row
from pyspark.sql import functions as F

from replication.errors import LeaseError
from replication.log import Log
from replication.model import RECORDS, Flow, Job
from replication.state.file_lock import FileLock, find_owner, take_lock
from replication.state.job_lock import already_running
from replication.state.paths import local_path
from replication.state.tables import Tables

log = Log(__name__)

RENEW_SECONDS = 20
EXPIRY_SECONDS = 90


@dataclass(frozen=True, slots=True)
class LeaseName:
    """What a lease is for: the records of a flow, or another *part* of it."""

    flow: Flow
    part: str = ""

    def __str__(self) -> str:
        return f"{self.flow} {self.part}".rstrip()

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return f"{self.flow.slug} {self.part}".rstrip()


class Lease:
    """A held lease. `renew` may be called at any pace and acts when it is due.

    Args:
        tables: Of the state directory.
        name: Of the lease.
        epoch: One more than that of the owner before.
        by_kernel: Whether a file lock decides, so that the table is a record only.
        renew_seconds: The least time between two renewals.
    """

    def __init__(
        self,
        tables: Tables,
        name: LeaseName,
        epoch: int,
        *,
        by_kernel: bool,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        self.epoch, self._renew_seconds = epoch, renew_seconds
        self._tables, self._name, self._by_kernel = tables, name, by_kernel
        self._owner = str(uuid.uuid4())
        self._since = datetime.now(timezone.utc)
        self._written_at = time.monotonic()

    def claim(self) -> bool:
        """Writes the first row of the epoch; False if another process was first."""
        self._write(transaction=(f"lease {self._name}", self.epoch))
        return self._by_kernel or self._is_newest()

    def renew(self) -> None:
        """Renews the lease when that is due; a kernel lock needs no renewal.

        Raises:
            LeaseError: Another process took over, because this one was silent for too long.
        """
        if self._by_kernel or time.monotonic() - self._written_at < self._renew_seconds:
            return
        self._write()
        if not self._is_newest():
            raise LeaseError(f"flow {self._name}: another process took over the lease; stopping")

    def release(self) -> None:
        """Writes the last row, so that the next process need not wait for expiry."""
        self._write(released=True)

    def _is_newest(self) -> bool:
        newest = _newest(self._tables, self._name)
        return newest is not None and newest["owner"] == self._owner

    def _write(self, *, released: bool = False, transaction: tuple[str, int] | None = None) -> None:
        row = {
            "flow": str(self._name),
            "epoch": self.epoch,
            "owner": self._owner,
            "host": f"{socket.gethostname()}, process {os.getpid()}",
            "since": self._since,
            "renewed": datetime.now(timezone.utc),
            "released": released,
        }
        self._tables.append("leases", [row], transaction)
        self._written_at = time.monotonic()


@contextmanager
def hold_lease(tables: Tables, name: LeaseName, *, file_locks: bool = True) -> Iterator[Lease]:
    """Holds the lease *name* for the block.

    Args:
        tables: Of the state directory.
        name: Of the lease.
        file_locks: Whether the state directory, if it is local, has file locks that work.

    Raises:
        LeaseError: Another process holds it; the text names that process.
        StateError: The state directory cannot be read or written.
    """
    lock = _take_kernel_lock(tables, name) if file_locks else None
    with lock or nullcontext():
        newest = _newest(tables, name)
        if lock is None and newest is not None and _is_alive(newest):
            raise _refusal(name, newest)
        epoch = newest["epoch"] + 1 if newest is not None else 1
        lease = Lease(tables, name, epoch, by_kernel=lock is not None)
        if not lease.claim():
            raise _refusal(name, _newest(tables, name))
        log.info("lease_held", flow=name.flow, part=name.part or "records", epoch=epoch)
        tables.leases.add(str(name))
        try:
            yield lease
        finally:
            tables.leases.discard(str(name))
            lease.release()


def holds_lease(tables: Tables, flow: Flow, job: Job) -> bool:
    """Whether this process holds the lease that *job* needs; a job without a lease always does."""
    name = LeaseName(flow, "" if job in RECORDS else job)
    return job == "heartbeats" or str(name) in tables.leases


def _take_kernel_lock(tables: Tables, name: LeaseName) -> FileLock | None:
    """The file lock, None where there are no file locks."""
    folder = local_path(tables.root)
    if folder is None:
        return None
    path = folder / "_locks" / f"{name.slug}.lock"
    lock = take_lock(path)
    if lock is None:
        raise already_running(name, find_owner(path))
    return lock


def _newest(tables: Tables, name: LeaseName) -> Row | None:
    rows = tables.read("leases").where(F.col("flow") == str(name))
    newest = rows.orderBy("epoch", "renewed", ascending=False).limit(1)
    return next(iter(tables.collect(newest, "leases")), None)


def _is_alive(row: Row) -> bool:
    age = datetime.now(timezone.utc) - row["renewed"].astimezone(timezone.utc)
    return not row["released"] and age.total_seconds() < EXPIRY_SECONDS


def _refusal(name: LeaseName, row: Row | None) -> LeaseError:
    owner = f"{row['host']}, since {row['since']:%Y-%m-%d %H:%M:%S} UTC" if row else None
    error = already_running(name, owner)
    return LeaseError(
        f"{error}. If its machine crashed, the lease expires within {EXPIRY_SECONDS} s"
    )
