"""The open connections of one flow."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Literal

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.steering import Steering
from replication.config.tree import FlowConfig
from replication.errors import GuardError, StateError
from replication.figures.words import Holder
from replication.flows.board import FlowBoard
from replication.flows.head_start import HeadStart
from replication.flows.outages import Outages
from replication.flows.refused_schemas import RefusedSchemas
from replication.flows.tally import Killed, Tally
from replication.kafka.cluster import Cluster
from replication.log import Log
from replication.offsets.live_map import LiveMap
from replication.spark.kafka_options import producer_client_id
from replication.spark.late import LateSession
from replication.spark.session import driver_jvm
from replication.state.accept_requests import AcceptRequests
from replication.state.change_files import ChangeFiles
from replication.state.claim import Claim, LeaseName, join_from
from replication.state.lease import Late, Lease, hold_lease
from replication.state.lease_book import LeaseBook
from replication.state.letter_requests import LetterRequests
from replication.state.move_requests import MoveRequests
from replication.state.offset_rows import OFFSET_RUNS
from replication.state.requests import RequestChannel
from replication.state.spark_reader import reader_of
from replication.state.tables import Tables
from replication.state.write_requests import WriteRequests

log = Log(__name__)


ActingPart = Literal["checkpoints", "metadata", "schemas"]
"""What changes the target in threads of its own, beside the records."""


def _idle_parts() -> dict[ActingPart, Lock]:
    return {"checkpoints": Lock(), "metadata": Lock(), "schemas": Lock()}


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The configuration, the sessions, the tables and the two clusters of one flow.

    Args:
        configured: The flow's configuration as its file has it.
        session: Of the flow's own query.
        tables: The tables of the state directory, with a session of their own for small queries.
        source: The cluster to read from.
        target: The cluster to write to.
        requests: What operators ask of this process.
        outages: Of both clusters.
        live_map: The flow's offset map in memory, if this process replicates the flow.
        claims: The claims to leases that began before Spark did; `claim` makes the others.
        leases: Where the process writes its leases together; None for each by itself.
        standby: Whether to wait for a lease that another process holds.
        head_start: Of the records of this process's flows before their background queries.
        tally: What this start of the flow has replicated.
        held: The leases that this process holds, by part.
        owns: Set while the one of the records is among them.
        spoke_as: By what this process holds, or held, the parts of the flow.
        refused_schemas: Topics whose records wait for an id of a schema in vain.
        acting: Locked while a part changes the target: see `act`.
    """

    configured: FlowConfig
    session: LateSession
    tables: Tables
    source: Cluster
    target: Cluster
    requests: RequestChannel
    outages: Outages
    live_map: LiveMap = field(default_factory=LiveMap)
    claims: dict[LeaseName, Claim] = field(default_factory=dict)
    leases: LeaseBook | None = None
    standby: bool = False
    head_start: HeadStart = field(default_factory=HeadStart)
    tally: Tally = field(default_factory=Tally)
    held: dict[str, Lease] = field(default_factory=dict)
    owns: Event = field(default_factory=Event)
    spoke_as: dict[str, Holder] = field(default_factory=dict)
    refused_schemas: RefusedSchemas = field(default_factory=RefusedSchemas)
    acting: dict[ActingPart, Lock] = field(default_factory=_idle_parts)

    @property
    def config(self) -> FlowConfig:
        """The configuration in force: the file's, with what operators have changed since.

        What works in turns reads it each turn and keeps nothing of a key that is reloadable.
        """
        return self.steering.overlaid(self.configured)

    @property
    def steering(self) -> Steering:
        """What operators have changed, as far as this process has read it."""
        return self.changes.steering

    @contextmanager
    def act(self, part: ActingPart) -> Iterator[bool]:
        """Yields whether *part* may change the target in the block: not while the flow is held.

        The answer holds for the block: a hold counts as in force only when no part `is_acting`.
        """
        with self.acting[part]:
            yield not self.steering.held

    @property
    def is_acting(self) -> bool:
        """Whether a part changes the target now, which may have begun before a hold."""
        return any(lock.locked() for lock in self.acting.values())

    def check_not_held(self) -> None:
        """Makes sure that a drain may go on.

        Raises:
            GuardError: An operation holds the flow.
        """
        if self.steering.held:
            why, flow = "to go on may mix records of two clusters", self.configured.flow
            raise GuardError(f"{why}: flow {flow} {self.steering.hold_text(flow)}")

    @property
    def changes(self) -> ChangeFiles:
        """The objects of these changes."""
        return self.requests.changes_of(self.configured.flow)

    @property
    def log(self) -> Log:
        """The log, bound to the flow."""
        return log.bind(self.configured.flow)

    @property
    def board(self) -> FlowBoard:
        """The figures of the flow, for whoever shows them."""
        return self.tally.board

    @property
    def spark(self) -> SparkSession:
        """The session of the flow's own query; Spark starts if it has not yet."""
        return self.session.get()

    @property
    def started_spark(self) -> SparkSession | None:
        """The same session if Spark has started: else nothing of this process is in flight."""
        return self.session.started

    @property
    def jvm(self) -> JVMView:
        """The driver's JVM, which has Java's Kafka client."""
        return driver_jvm()

    @property
    def accept_requests(self) -> AcceptRequests:
        """What operators have accepted, and the flow has not used yet."""
        return AcceptRequests(self.requests, self.config.flow)

    @property
    def move_requests(self) -> MoveRequests:
        """The positions that operators have moved, and the flow has not used yet."""
        return MoveRequests(self.requests, self.config.flow)

    @property
    def letter_requests(self) -> LetterRequests:
        """Which dead letters are to be copied again."""
        return LetterRequests(self.requests, self.config.flow)

    @property
    def write_requests(self) -> WriteRequests:
        """Who waits until the offset map is written."""
        return WriteRequests(self.requests, self.config.flow)

    def claim(self, part: str = "") -> Claim:
        """Returns a claim to the lease of the flow's records or of another *part*."""
        name = LeaseName(self.config.flow, part)
        claim = self.claims.pop(name, None)
        return claim or claim_lease(
            self.jvm, self.tables.root, self.config, name, is_quick=self.standby
        )

    @contextmanager
    def hold(
        self,
        part: str = "",
        stop: Event | None = None,
        *,
        standby: bool = False,
        when_late: Late | None = None,
    ) -> Iterator[Lease | None]:
        """Holds the lease of the flow's records, or of another *part*, for the block.

        Everything else is as in `hold_lease`. The tally learns who had the lease before.
        """
        claim = self.claim(part)
        if not part:
            self.outages.stand_by(claim)
        with hold_lease(
            self.tables, claim, stop, standby=standby, when_late=when_late, book=self.leases
        ) as lease:
            if lease is None:
                yield None
                return
            self._note(lease)
            if not part:
                self.outages.own()
                self.board.own()
                self.head_start.begin()
            self.held[part] = lease
            if not part:
                self.owns.set()
            try:
                yield lease
            finally:
                if not part:
                    self.owns.clear()
                del self.held[part]
                if not lease.is_held:  # the next owner speaks, whatever this one had to say
                    del self.spoke_as[part]

    def _note(self, lease: Lease) -> None:
        """Tells the tally of the *lease* of this process, and of an owner that was killed.

        The owner before may be a claim of this process, which lost the lease after a silence.
        """
        former, flow = lease.former, self.config.flow
        if former is not None and former["owner"] not in self.tally.claims:
            seen = former["renewed"]
            with suppress(StateError):  # that it took the lease is a sign of life as well
                newest = reader_of(self.tables).newest(OFFSET_RUNS, flow, ["flow"], ["written_at"])
                seen = max([seen, *(row["written_at"] for row in newest)])
            epoch = None if lease.name.part else former["epoch"]
            self.tally.when_killed(Killed(former["host"], epoch, former["since"], seen))
        self.tally.claims.add(lease.owner)
        claim = lease.claim
        worker = f"{claim.host}/{flow}/{claim.id}"
        since = claim.since.timestamp()
        self.spoke_as[lease.name.part] = Holder(lease.epoch, claim.instance, worker, since)
        if not lease.name.part:
            self.tally.epoch = lease.epoch


def claim_lease(
    jvm: JVMView, state_dir: str, config: FlowConfig, name: LeaseName, *, is_quick: bool
) -> Claim:
    """Returns a claim to the lease *name* of the flow *config*; the group is joined from *jvm*.

    With *is_quick* an owner that falls silent is followed soon, and gives up soon.
    """
    target = config.target
    return Claim(
        name,
        state_dir,
        join_from(jvm, target.consumer, name),
        producer="" if name.part else producer_client_id(target.producer, config.flow),
        target=target.consumer,
        is_quick=is_quick,
    )
