"""The lease: the right to write for a flow, held by one process at a time.

Membership of a consumer group on the target decides who holds it; see `replication.state.claim`.
The table ``leases`` records who held it when, and tells a new owner whether the last one ended
cleanly: if not, the new owner waits until nothing of the last one can write any more.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from threading import Event, Lock, RLock
from typing import Any, Final, Literal

from replication.errors import LeaseError, ReplicationError
from replication.kafka.ownership import QUICK, STEADY
from replication.kafka.reach import LOOK_SECONDS
from replication.log import Log
from replication.model import RECORDS, Flow, Job, is_local_mode
from replication.spark.session import driver_master
from replication.state.claim import Claim, LeaseName, NoLeaseAnswerError, leave
from replication.state.tables import Tables, reader_of

log = Log(__name__)

# How long a new owner waits until nothing of the last one can write any more.
#
# No clock of another machine is read. The new owner waits for a time of its own, counted from the
# moment at which the group named it. The times of the group (`LeaseTimes`) say what that must be:
#
#     the last heartbeat that the owner knows to be answered was sent at         A
#     it sends no record from then on, wherever it is                            A + silence
#     its loop and its producers have given up what was under way                A + silence + FLUSH
#     the coordinator had heard that heartbeat, and expels it, at the earliest at  A + session
#     the group names the next owner then or later, which waits                  `handover_seconds`
#
# So it is safe if session + wait >= silence + FLUSH. Executors in other processes than the
# driver's end within `EXECUTOR_SECONDS` after they lost it, so for them that stands in place of
# the silence. An owner that is alone in its group may be silent for longer: whoever comes later
# has not seen it, and waits as after any end. And no healthy owner ends because a member that died
# holds up a rebalance if silence >= session + staleness. `tests/unit/test_handover.py` holds both.

Executors = Literal["local", "cluster"]
"""Where tasks run: in the driver's process, or in processes that may outlive it."""

EXECUTOR_SECONDS: Final = 20
"""Executors that cannot reach the driver have ended by then; see the session's settings."""

REACTION_SECONDS: Final = 4
"""Between the end of a lease and the end of what its owner sends, if little is known of it."""

FLUSH_SECONDS: Final = 2
"""The same where tasks run in the driver's process: its producers are closed at once."""

LEAST_SESSION: Final = min(QUICK.session, STEADY.session)

AFTER_ANY_END: Final = max(STEADY.alone, QUICK.alone, EXECUTOR_SECONDS) + REACTION_SECONDS
"""The wait if nothing is known of the last owner but that it has lost the lease."""

AFTER_DEATH: Final = REACTION_SECONDS
"""The wait if the last owner's process is dead, with all its tasks: the JVM of a Python that was
killed notices that, and gives its producers 3 s (`jvm/plugin/KeptProducers`)."""

AFTER_EXPULSION: Final = AFTER_ANY_END - LEAST_SESSION
"""The wait of a standby: by then the last owner was silent for a session already."""

QUICK_JOIN_SECONDS: Final = 5.0
"""A group without silent members names its owner sooner, also with Kafka's initial delay of 3 s."""


@dataclass(frozen=True, slots=True)
class LastOwner:
    """The newest row of the table ``leases``.

    Args:
        owner: The claim's id.
        released: Whether the process ended the lease itself, after its query.
        machine: The machine and the lock file of the process.
        executors: Where its tasks ran; None in a row of an earlier version.
        silence: After how many seconds without an answer it stops; None in such a row.
    """

    owner: str
    released: bool
    machine: str | None = None
    executors: str | None = None
    silence: float | None = None

    @property
    def after_expulsion(self) -> float:
        """How long a standby waits that has seen it."""
        if self.executors != "local" or self.silence is None:
            return AFTER_EXPULSION
        return min(AFTER_EXPULSION, self.silence + FLUSH_SECONDS - LEAST_SESSION)

    def has_died(self, machine: str) -> bool:
        """Returns whether it is dead, for a process that holds *machine*'s lock by now."""
        return self.executors == "local" and self.machine == machine


def handover_seconds(
    last: LastOwner | None, *, machine: str, seen: str = "", joined_in: float = 0.0
) -> float:
    """Returns how long the new owner waits, counted from the moment at which the group named it.

    Args:
        last: The newest row of ``leases``, None if there is none.
        machine: The machine and the lock file of this process, which holds that lock.
        seen: The claim's id of an owner that the group named before this one; empty for none.
        joined_in: Seconds until the group had named its owner. More than a few mean that a silent
            member, which may be the last owner, had to be expelled first.
    """
    if seen:
        if last is None or last.owner != seen:
            return AFTER_EXPULSION
        if last.released or last.has_died(machine):
            return 0.0 if last.released else AFTER_DEATH
        return last.after_expulsion
    if last is not None and not last.released:
        return AFTER_DEATH if last.has_died(machine) else AFTER_ANY_END
    return 0.0 if joined_in <= QUICK_JOIN_SECONDS else AFTER_ANY_END


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


@contextmanager
def hold_lease(
    tables: Tables,
    claim: Claim,
    stop: Event | None = None,
    *,
    standby: bool = False,
    when_late: Late | None = None,
    book: "LeaseBook | None" = None,
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


# The leases of one process, written together: one commit takes them, one gives them back.
#
# Each flow still holds, loses and waits for its own leases: whoever needs the first one writes the
# rows of all whose groups have named this process by then. The other ones follow on their own.

ANSWER_SECONDS: Final = 2.0
"""How long the first lease waits for the answers of the other groups, which were asked before Spark
started. A target that is silent delays no flow for longer."""

BOOK_POLL_SECONDS: Final = 0.05


class LeaseBook:
    """What the flows of this process have claimed and taken. Threads share it.

    Args:
        tables: Of the state directory.
        claims: Those that were made before Spark started, by the names of their leases.
        drains: The flows that end by themselves: their leases are kept until they do.
    """

    def __init__(
        self, tables: Tables, claims: Iterable[Claim] = (), drains: Collection[Flow] = ()
    ) -> None:
        self._tables = tables
        self._drains = frozenset(drains)
        self._claims = {claim.name: claim for claim in claims}
        self._taken: dict[LeaseName, Lease] = {}
        self._unused: set[LeaseName] = set()
        self._alone: set[LeaseName] = set()  # their holders wait for the end of the last owner
        self._deadline: float | None = None
        self._taking = Lock()
        self._lock = RLock()

    def take(self, claim: Claim) -> Lease | None:
        """Takes *claim*'s lease, which its group gave to this process; None if it must wait.

        Its row is written by then, unless another thread has written it already. It must wait
        where something of its last owner may still write.

        Raises:
            StateError: The table cannot be read or written.
        """
        with self._taking:
            with self._lock:
                self._claims[claim.name] = claim
            if claim.name not in self._unused:
                self._take_all(self._ready(claim))
            self._unused.discard(claim.name)
            if claim.name not in self._taken:
                self._alone.add(claim.name)
            return self._taken.get(claim.name)

    def keeps(self, lease: Lease, *, is_last: bool) -> bool:
        """Returns whether *lease* stays in the book until `give_back`; else its holder ends it now.

        Args:
            lease: Whose holder has done its work.
            is_last: Whether the holder's flow is about to end.
        """
        with self._lock:
            flow = lease.claim.name.flow
            if lease.is_held and (is_last or flow in self._drains):
                self._taken[lease.claim.name] = lease
                return True
            self.forget(lease.claim)
            return False

    def forget(self, claim: Claim) -> None:
        """Leaves *claim* to its holder, who ends it."""
        with self._lock:
            self._claims.pop(claim.name, None)
            self._taken.pop(claim.name, None)

    def give_back(self, flows: Collection[Flow]) -> None:
        """Gives the leases of *flows*, which have ended, back in one commit, and leaves the groups.

        A lease whose owner may have records on their way is not released: the next owner waits.
        """
        with self._taking, self._lock:
            ended = [claim for name, claim in self._claims.items() if name.flow in flows]
            leases = [lease for name, lease in self._taken.items() if name.flow in flows]
            released = [lease for lease in leases if lease.has_settled and lease.is_held]
            try:
                record(self._tables, released, released=True)
            except ReplicationError as error:
                log.warning("leases_not_released", text=f"the next start may wait: {error}")
            for claim in ended:
                self.forget(claim)
        leave(ended)

    def _ready(self, first: Claim) -> list[Claim]:
        """Returns *first* and the claims whose groups have named this process by now."""
        if self._deadline is None:
            self._deadline = time.monotonic() + ANSWER_SECONDS
        with self._lock:
            known = {first.name, *self._taken, *self._alone}
            others = [claim for name, claim in self._claims.items() if name not in known]
        while any(claim.is_joining for claim in others) and time.monotonic() < self._deadline:
            time.sleep(BOOK_POLL_SECONDS)
        return [first, *(claim for claim in others if claim.is_owner)]

    def _take_all(self, claims: Collection[Claim]) -> None:
        """Takes those of *claims* that need not wait for the end of their last owner."""
        newest = newest_rows(self._tables, [claim.name for claim in claims])
        leases = [
            Lease(claim, row)
            for claim in claims
            for row in [newest.get(claim.name)]
            if handover_left(self._tables, row, claim) <= 0 and not claim.loss()
        ]
        record(self._tables, leases)
        with self._lock:
            self._taken |= {lease.claim.name: lease for lease in leases}
            self._unused |= {lease.claim.name for lease in leases}
