"""The lease: one process per flow and state directory.

On a local state directory the kernel's file lock is the truth: it is gone the moment its process
is, kill -9 included. Elsewhere the ``leases`` table is: the owner renews its row, and a row that
was not renewed for `EXPIRY_SECONDS` is dead. A claim carries Delta's transaction version, so of
two takers of one epoch one wins. Either way the table keeps who ran when.
"""

import fcntl
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from pyspark.sql import Row

from replication.errors import LeaseError, StateError
from replication.model import Flow
from replication.state.tables import Tables, local_path

log = logging.getLogger(__name__)

RENEW_SECONDS = 20
EXPIRY_SECONDS = 90


class Lease:
    """A held lease. `renew` may be called at any pace and acts when it is time."""

    def __init__(self, tables: Tables, flow: Flow, epoch: int, *, by_kernel: bool) -> None:
        self.epoch = epoch
        self._tables, self._flow, self._by_kernel = tables, flow, by_kernel
        self._owner = str(uuid.uuid4())
        self._since = datetime.now(timezone.utc)
        self._written_at = time.monotonic()

    def claim(self) -> bool:
        """Writes the first row of the epoch; False if another process was first."""
        self._write(transaction=(f"lease {self._flow}", self.epoch))
        return self._by_kernel or self._is_newest()

    def renew(self) -> None:
        """Renews when due; a kernel lock needs no renewal.

        Raises:
            LeaseError: Another process took over, this one having been silent for too long.
        """
        if self._by_kernel or time.monotonic() - self._written_at < RENEW_SECONDS:
            return
        self._write()
        if not self._is_newest():
            raise LeaseError(f"flow {self._flow}: another process took the lease over; stopping")

    def release(self) -> None:
        """Writes the last row: the next process need not wait for expiry."""
        self._write(released=True)

    def _is_newest(self) -> bool:
        newest = _newest(self._tables, self._flow)
        return newest is not None and newest["owner"] == self._owner

    def _write(self, *, released: bool = False, transaction: tuple[str, int] | None = None) -> None:
        row = {
            "flow": str(self._flow),
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
def held(tables: Tables, flow: Flow, part: str = "") -> Iterator[Lease]:
    """Holds *flow*'s lease for the block, or raises `LeaseError` naming who holds it.

    Args:
        tables: Of the state directory.
        flow: Whose lease.
        part: What of the flow, where not the records: it has a lease of its own.
    """
    flow = Flow(flow.source, f"{flow.target} {part}") if part else flow
    local = local_path(tables.root)
    lock = _lock_file(local, flow, tables) if local else None
    try:
        newest = _newest(tables, flow)
        if lock is None and newest is not None and _is_alive(newest):
            raise _refusal(flow, newest)
        epoch = newest["epoch"] + 1 if newest is not None else 1
        lease = Lease(tables, flow, epoch, by_kernel=lock is not None)
        if not lease.claim():
            raise _refusal(flow, _newest(tables, flow))
        log.info("lease held flow=%s epoch=%d", flow, epoch)
        try:
            yield lease
        finally:
            lease.release()
    finally:
        if lock is not None:
            lock.close()


def _lock_file(folder: Path, flow: Flow, tables: Tables) -> IO[str]:
    path = folder / "_locks" / f"{flow.slug}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise StateError(f"cannot write the lock {path}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise _refusal(flow, _newest(tables, flow)) from error
    return file


def _newest(tables: Tables, flow: Flow) -> Row | None:
    rows = tables.of("leases", flow).orderBy("epoch", "renewed", ascending=False).limit(1)
    return next(iter(tables.collect(rows, "leases")), None)


def _is_alive(row: Row) -> bool:
    age = datetime.now(timezone.utc) - row["renewed"].astimezone(timezone.utc)
    return not row["released"] and age.total_seconds() < EXPIRY_SECONDS


def _refusal(flow: Flow, row: Row | None) -> LeaseError:
    who = f"{row['host']}, since {row['since']:%Y-%m-%d %H:%M:%S}" if row else "another process"
    return LeaseError(
        f"flow {flow} is already running on this state.dir: {who}. Stop it first "
        f"(python -m replication stop FILE --flow '{flow}'); after a crash of its machine the "
        f"lease ends by itself within {EXPIRY_SECONDS} s"
    )
