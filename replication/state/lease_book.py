"""The leases of one process, written together: one commit takes them, one gives them back.

Each flow still holds, loses and waits for its own leases: whoever needs the first one writes the
rows of all whose groups have named this process by then. The other ones follow on their own.
"""

import time
from collections.abc import Collection, Iterable
from threading import Lock, RLock
from typing import Final

from replication.errors import ReplicationError
from replication.log import Log
from replication.model import Flow
from replication.state.claim import Claim, LeaseName, leave
from replication.state.lease import Lease, handover_left, newest_rows, record
from replication.state.tables import Tables

log = Log(__name__)

ANSWER_SECONDS: Final = 2.0
"""How long the first lease waits for the answers of the other groups, which were asked before Spark
started. A target that is silent delays no flow for longer."""

POLL_SECONDS: Final = 0.05


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
            time.sleep(POLL_SECONDS)
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
