"""The lease: the right to write for a flow, held by one process at a time.

Membership of a consumer group on the target decides who holds it; see `replication.state.claim`.
The table ``leases`` records who held it when, and tells a new owner whether the last one ended
cleanly: if not, the new owner waits until nothing of the last one can write any more.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from threading import Event
from typing import Any, Final, Protocol

from replication.errors import LeaseError
from replication.kafka.reach import LOOK_SECONDS
from replication.log import Log
from replication.model import RECORDS, Flow, Job, is_local_mode
from replication.spark.session import driver_master
from replication.state.claim import Claim, LeaseName, NoLeaseAnswerError
from replication.state.handover import Executors, LastOwner, handover_seconds
from replication.state.spark_reader import reader_of
from replication.state.tables import Tables

log = Log(__name__)

POLL_SECONDS: Final = 0.2
JOIN_SECONDS: Final = 60.0
"""How long a process that does not stand by waits for the group's first answer. A silent member
holds it up for a session."""


Late = Callable[[NoLeaseAnswerError], None]


class LeaseLostError(LeaseError):
    """This process held the lease and lost it. The text says why."""


class Lease:
    """A held lease. `check` says whether it still is.

    Attributes:
        claim: By which this process holds it.
        former: The last row of the owner before, if that never released the lease.
        has_settled: Whether nothing of its owner is on its way to the target. Otherwise its end is
            not recorded as a release, and the next owner waits.
    """

    def __init__(self, claim: Claim, newest: Mapping[str, Any] | None) -> None:
        self.name = claim.name
        self.owner = claim.id
        self.epoch = newest["epoch"] + 1 if newest is not None else 1
        self.has_settled = True
        self.former = newest if newest is not None and not newest["released"] else None
        self.claim = claim

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the lease."""
        return not self.claim.loss()

    def check(self) -> None:
        """Makes sure that this process still holds the lease.

        Raises:
            LeaseLostError: It does not, and must write nothing more.
        """
        if reason := self.claim.loss():
            raise LeaseLostError(f"flow {self.claim.name}: the lease was lost: {reason}")


def record(tables: Tables, leases: Sequence[Lease], *, released: bool = False) -> None:
    """Appends a row to ``leases`` for each of *leases*, in one commit: it is held, or released."""
    rows = [
        {
            "flow": str(lease.claim.name),
            "epoch": lease.epoch,
            "owner": lease.claim.id,
            "host": lease.claim.process,
            "since": lease.claim.since,
            "renewed": datetime.now(timezone.utc),
            "released": released,
            "machine": lease.claim.machine,
            "executors": executors_here(),
            "silence": lease.claim.silence,
        }
        for lease in leases
    ]
    tables.append("leases", rows)


class Book(Protocol):
    """What `hold_lease` needs of `replication.state.lease_book.LeaseBook`."""

    def take(self, claim: Claim) -> Lease | None:
        """Takes *claim*'s lease, written with others; None if its last owner may still write."""

    def keeps(self, lease: Lease, *, is_last: bool) -> bool:
        """Returns whether the book ends *lease*, and not its holder."""

    def forget(self, claim: Claim) -> None:
        """Leaves *claim* to its holder."""


@contextmanager
def hold_lease(
    tables: Tables,
    claim: Claim,
    stop: Event | None = None,
    *,
    standby: bool = False,
    when_late: Late | None = None,
    book: Book | None = None,
) -> Iterator[Lease | None]:
    """Holds the lease that *claim* is for, until the end of the block.

    Args:
        tables: Of the state directory.
        claim: Of this process. It ends with the block.
        stop: Ends the wait for the lease; the block then gets None.
        standby: Whether to wait for the end of another process that holds the lease.
        when_late: As in `await_lease`.
        book: Of the process, which takes its leases together and may keep this one after the block.

    Raises:
        LeaseError: Another process holds it; the text names that process.
        ClusterError: The target does not answer.
        StateError: The state directory cannot be read or written.
    """
    stop = stop or Event()
    tables.begin_folder()
    with ExitStack() as ending:
        ending.enter_context(claim)
        if book is not None:
            ending.callback(book.forget, claim)
        if not await_lease(claim, stop, standby=standby, when_late=when_late):
            yield None
            return
        lease = book.take(claim) if book is not None else None
        if lease is None and (lease := _taken_alone(tables, claim, stop)) is None:
            yield None
            return
        lease.check()
        name = claim.name
        log.bind(name.flow).info("lease_held", part=name.part or "records", epoch=lease.epoch)
        tables.leases.add(str(name))
        try:
            yield lease
        finally:
            tables.leases.discard(str(name))
            if book is not None and book.keeps(lease, is_last=stop.is_set()):
                ending.pop_all()
            elif lease.has_settled and lease.is_held:
                record(tables, [lease], released=True)


def _taken_alone(tables: Tables, claim: Claim, stop: Event) -> Lease | None:
    """Takes the lease of *claim* once its last owner cannot write; None if *stop* is set."""
    newest = newest_rows(tables, [claim.name]).get(claim.name)
    left = handover_left(tables, newest, claim)
    if left > 0:
        log.bind(claim.name.flow).info(
            "lease_handover",
            seconds=round(left, 1),
            text="whoever held the lease before did not release it, and may still write",
        )
        if stop.wait(left):
            return None
    lease = Lease(claim, newest)
    lease.check()
    record(tables, [lease])
    return lease


def await_lease(claim: Claim, stop: Event, *, standby: bool, when_late: Late | None = None) -> bool:
    """Waits until *claim* has the lease; returns whether it has. If not, *stop* is set.

    Args:
        claim: Of this process.
        stop: Ends the wait.
        standby: Whether to wait for the end of another process that holds the lease.
        when_late: Is told that the target is silent, for as long as it is, instead of an error: the
            wait goes on, so that the lease is held as soon as the target answers.

    Raises:
        LeaseError: Another process holds it, and this one does not stand by.
        ClusterError: The target does not answer.
    """
    started = time.monotonic()
    deadline = started + JOIN_SECONDS
    while (progress := claim.await_step(standby=standby)) != "owner":
        now = time.monotonic()
        if progress == "joining" and not standby and now > started + LOOK_SECONDS:
            error = claim.late(JOIN_SECONDS) if now > deadline else None
            if when_late is None and (error := claim.silent() or error):
                raise error
            if when_late is not None and error:
                when_late(error)
                deadline += JOIN_SECONDS
        if stop.wait(POLL_SECONDS):
            return False
    return True


def holds_lease(tables: Tables, flow: Flow, job: Job) -> bool:
    """Returns whether this process holds *job*'s lease; true for a job that needs none."""
    name = LeaseName(flow, "" if job in RECORDS else job)
    return job == "heartbeats" or str(name) in tables.leases


def executors_here() -> Executors:
    """Returns where the tasks of this process run."""
    return "local" if is_local_mode(driver_master()) else "cluster"


def handover_left(tables: Tables, newest: Mapping[str, Any] | None, claim: Claim) -> float:
    """Returns how many seconds the last owner, of the row *newest*, may still write."""
    last = LastOwner("", released=False) if tables.was_set_aside("leases") else None
    if newest is not None:  # a table of an earlier version lacks the last columns
        known = (newest.get(column) for column in ("machine", "executors", "silence"))
        last = LastOwner(newest["owner"], newest["released"], *known)
    seconds = handover_seconds(
        last, machine=claim.machine, seen=claim.seen, joined_in=claim.joined_in
    )
    return claim.named_at + seconds - time.monotonic() if seconds else 0.0


def newest_rows(tables: Tables, names: Sequence[LeaseName]) -> dict[LeaseName, dict[str, Any]]:
    """Returns the newest row of each of *names* in ``leases``, where there is one."""

    def read() -> list[dict[str, Any]]:
        order = ["epoch", "renewed"]
        return reader_of(tables).newest("leases", list(map(str, names)), ["flow"], order)

    if not names:
        return {}
    rows = {row["flow"]: row for row in tables.mended("leases", names[0].flow, read)}
    return {name: rows[str(name)] for name in names if str(name) in rows}
