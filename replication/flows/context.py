"""The open connections of one flow."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Literal

import pyspark
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.changes import Overrides
from replication.config.transforms import chain_text
from replication.config.tree import FlowConfig
from replication.errors import ClusterError, GuardError, IdentityError, StateError
from replication.figures.status_store import Holder
from replication.flows.flow_metrics import FlowMetrics
from replication.flows.outages import Outages
from replication.flows.run_summary import Killed, RunSummary
from replication.flows.supervised import HeadStart
from replication.kafka.cluster import Cluster, foreign_addresses
from replication.log import Log
from replication.offsets.map import LiveMap
from replication.positions.flow_clients import compared
from replication.positions.originals import transform_refusals, unsafe_keys
from replication.spark.kafka_options import producer_client_id
from replication.spark.session import LateSession, driver_jvm, has_jvm_ended
from replication.state.change_files import ChangeFiles
from replication.state.claim import Claim, LeaseName, join_from
from replication.state.cluster_ids import (
    CLUSTERS,
    check_ids,
    check_topics,
    rows_of,
    stored_ids,
    stored_topics,
)
from replication.state.lease import Late, Lease, LeaseBook, hold_lease
from replication.state.requests import (
    AcceptRequest,
    DeadLetterRequest,
    MoveRequest,
    OwnerRequests,
    RequestChannel,
    RetryRequest,
    WriteRequests,
)
from replication.state.table_reader import OFFSET_RUNS
from replication.state.tables import Tables, reader_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look

log = Log(__name__)

Again = Callable[[str], str | None]
"""Tries again for a topic; why it is still in vain, None if it is not."""


class RefusedSchemas:
    """Why topics of a flow cannot go on, by their names on the source.

    Attributes:
        copied: The topic of the source for each remote topic whose records carry ids.
        waiting: The topics whose records wait now, in vain or for a moment.
    """

    def __init__(self) -> None:
        self.copied: dict[str, str] = {}
        self.waiting = frozenset[str]()
        self._reasons: dict[str, str] = {}
        self._again: Again = lambda _: None
        self._lock = Lock()

    def begin(self, again: Again) -> None:
        """Forgets all reasons; *again* is asked from now on."""
        with self._lock:
            self._reasons = {}
            self._again = again

    def add(self, topic: str, reason: str) -> None:
        """Notes why *topic* cannot go on."""
        with self._lock:
            self._reasons[topic] = reason

    def of(self, topics: Collection[str]) -> Mapping[str, str]:
        """Returns why those of *topics* cannot go on of which that is so."""
        with self._lock:
            return {topic: text for topic, text in self._reasons.items() if topic in topics}

    def try_again(self, topics: Collection[str]) -> Mapping[str, str]:
        """Returns why *topics* still cannot go on, after trying again; forgets the others."""
        for topic in self.of(topics):
            reason = self._again(topic)
            with self._lock:
                self._reasons.pop(topic, None)
                if reason is not None:
                    self._reasons[topic] = reason
        return self.of(topics)


@dataclass
class CatchUp:
    """The requests that a flow ends once it has caught up.

    Attributes:
        asked: Those that wait for that now.
        done: Those that are fulfilled: it ends for them.
    """

    asked: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()


ActingPart = Literal["checkpoints", "metadata", "schemas"]
"""What changes the target in threads of its own, beside the records."""


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
        summary: What this start of the flow has replicated.
        held: The leases that this process holds, by part.
        owns: Set while the one of the records is among them.
        spoke_as: By what this process holds, or held, the parts of the flow.
        refused_schemas: Topics whose records wait for an id of a schema in vain.
        acting: Locked while a part changes the target: see `act`.
        catch_up: Who waits that the flow ends once it has caught up.
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
    summary: RunSummary = field(default_factory=RunSummary)
    held: dict[str, Lease] = field(default_factory=dict)
    owns: Event = field(default_factory=Event)
    spoke_as: dict[str, Holder] = field(default_factory=dict)
    refused_schemas: RefusedSchemas = field(default_factory=RefusedSchemas)
    acting: dict[ActingPart, Lock] = field(
        default_factory=lambda: {"checkpoints": Lock(), "metadata": Lock(), "schemas": Lock()}
    )
    catch_up: CatchUp = field(default_factory=CatchUp)

    @property
    def config(self) -> FlowConfig:
        """The configuration in force: the file's, with what operators have changed since.

        What works in turns reads it each turn and keeps nothing of a key that is reloadable.
        """
        return self.steering.overlaid(self.configured)

    @property
    def steering(self) -> Overrides:
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
    def metrics(self) -> FlowMetrics:
        """The figures of the flow, for whoever shows them."""
        return self.summary.metrics

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
    def accept_requests(self) -> OwnerRequests[AcceptRequest]:
        """What operators have accepted, and the flow has not used yet."""
        return OwnerRequests(self.requests, self.config.flow, AcceptRequest)

    @property
    def move_requests(self) -> OwnerRequests[MoveRequest]:
        """The positions that operators have moved, and the flow has not used yet."""
        return OwnerRequests(self.requests, self.config.flow, MoveRequest)

    @property
    def letter_requests(self) -> OwnerRequests[DeadLetterRequest]:
        """Which dead letters are to be copied again."""
        return OwnerRequests(self.requests, self.config.flow, DeadLetterRequest)

    @property
    def retry_requests(self) -> OwnerRequests[RetryRequest]:
        """What is set aside, and is to be tried now."""
        return OwnerRequests(self.requests, self.config.flow, RetryRequest)

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
                self.metrics.own()
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
                # the next owner speaks, whatever this one had to say; a JVM's end names none
                if not lease.is_held and not has_jvm_ended():
                    del self.spoke_as[part]

    def _note(self, lease: Lease) -> None:
        """Tells the tally of the *lease* of this process, and of an owner that was killed.

        The owner before may be a claim of this process, which lost the lease after a silence.
        """
        former, flow = lease.former, self.config.flow
        if former is not None and former["owner"] not in self.summary.claims:
            seen = former["renewed"]
            with suppress(StateError):  # that it took the lease is a sign of life as well
                newest = reader_of(self.tables).newest(OFFSET_RUNS, flow, ["flow"], ["written_at"])
                seen = max([seen, *(row["written_at"] for row in newest)])
            epoch = None if lease.name.part else former["epoch"]
            self.summary.when_killed(Killed(former["host"], epoch, former["since"], seen))
        self.summary.claims.add(lease.owner)
        claim = lease.claim
        worker = f"{claim.host}/{flow}/{claim.id}"
        since = claim.since.timestamp()
        self.spoke_as[lease.name.part] = Holder(lease.epoch, claim.instance, worker, since)
        if not lease.name.part:
            self.summary.epoch = lease.epoch


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


# Keeps a flow from the state and from the topics of other clusters than its own.


class Identity:
    """The ids of one flow's clusters.

    Args:
        context: The flow.

    Raises:
        StateError: The table cannot be read.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._stored = stored_ids(reader_of(context.tables), context.config)

    def check(self) -> dict[str, str]:
        """Checks the clusters' ids; returns those that are not recorded yet, by alias.

        Raises:
            IdentityError: The state is of other clusters.
            ClusterError: A cluster does not answer.
        """
        clusters = self._context.source, self._context.target
        found = {cluster.alias: cluster.cluster_id() for cluster in clusters}
        config, tables = self._context.config, self._context.tables
        new = check_ids(config, tables.root, self._stored, found)
        if unnamed := {alias: new[alias] for alias in new if alias not in self._stored}:
            topics = stored_topics(reader_of(tables), config)
            check_topics(config, tables.root, unnamed, topics, clusters)
        return new

    def check_addresses(self) -> None:
        """Makes sure that no client can begin at another cluster than its own."""
        config = self._context.config
        for cluster, side in (
            (self._context.source, config.source),
            (self._context.target, config.target),
        ):
            if others := foreign_addresses(cluster, side.admin):
                listed = ", ".join(f"{one} to the id {uid}" for one, uid in sorted(others.items()))
                raise IdentityError(
                    f"flow {config.flow}: the addresses {side.alias}.bootstrap.servers="
                    f"{cluster.servers} lead to several Kafka clusters: {listed}, and the rest to "
                    f"the id {cluster.cluster_id()}; a client may begin with any of them, so "
                    "nothing is read or written. Take those of other clusters out of the file"
                )

    def record(self) -> None:
        """Checks the ids, and records those that are new.

        Only the process that holds the lease of the flow's records may do so.

        Raises:
            IdentityError: The state is of other clusters.
            ClusterError: A cluster does not answer.
            StateError: The table cannot be written.
        """
        new = self.check()
        if new:
            self._context.tables.append(CLUSTERS, rows_of(self._context.config, new))
            self._stored |= new


def check_identity(context: FlowContext) -> None:
    """Checks the clusters of a flow before anything is changed for it.

    Without an answer of a cluster nothing is known; nothing can be changed there either, and the
    flow checks again. So a silent cluster is not waited for: the other flows are to start.

    Raises:
        IdentityError: The state is of other clusters.
        StateError: The table cannot be read.
    """
    for cluster in (context.source, context.target):
        if cluster.is_silent:
            text = f"cluster {cluster.alias} does not answer"
            context.log.info("clusters_not_checked", text=text)
            return
    try:
        identity = Identity(context)
        identity.check_addresses()
        identity.check()
    except ClusterError as error:
        context.log.info("clusters_not_checked", text=error)


def refused_transforms(context: FlowContext) -> list[str]:
    """Returns why the flow's transforms must not change a record; nothing without any.

    As with the ids of its clusters, a silent cluster is not waited for. A drain for which no record
    waits that they would change does not start Spark to try them once more.
    """
    clusters = context.source, context.target
    if not context.config.transforms or any(cluster.is_silent for cluster in clusters):
        return []
    try:
        with compared(context.config.flow):
            plan = look(context.config, *clusters)
            left = plan.without_paused(context.steering.paused)
            if context.started_spark is None and _is_done(context, left):
                return [*unsafe_keys(plan, *clusters).values()]
            return transform_refusals(context, plan)
    except (ClusterError, GuardError) as error:  # the flow meets it as well
        context.log.info("transforms_not_sampled", text=error)
        return []


def _is_done(context: FlowContext, plan: TopicPlan) -> bool:
    """Returns whether all topics with transforms are copied, by the transforms of now."""
    tps = [tp for tp in plan.partitions if tp.topic in plan.transforms]
    try:
        reader = reader_of(context.tables)
        rows = reader.newest("topics", context.config.flow, ["remote_topic"], ["at"])
        anchors = reader.offsets(context.config.flow).progress().anchors
    except StateError:  # it is not known
        return False
    written = {row["topic"]: row.get("transform") for row in rows}
    ends = context.source.log_ends(tps, context.config.isolation)
    return all(
        written.get(topic) == chain_text(chain, pyspark.__version__)
        for topic, chain in plan.transforms.items()
    ) and all(
        tp in anchors
        and anchors[tp].topic_id == plan.source_ids[tp.topic]
        and anchors[tp].position.upstream == ends.get(tp)
        for tp in tps
    )
