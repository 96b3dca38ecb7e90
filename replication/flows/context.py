"""The open connections of one flow."""

from dataclasses import dataclass, field

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.flows.head_start import HeadStart
from replication.kafka.cluster import Cluster
from replication.offsets.live_map import LiveMap
from replication.spark.kafka_options import producer_client_id
from replication.spark.session import jvm_of
from replication.state.accept_requests import AcceptRequests
from replication.state.claim import Claim, LeaseName, join_from
from replication.state.requests import RequestChannel
from replication.state.tables import Tables


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The configuration, the sessions, the tables and the two clusters of one flow.

    Args:
        config: The flow.
        spark: The session of the flow's own query.
        tables: The tables of the state directory, with a session of their own for small queries.
        source: The cluster to read from.
        target: The cluster to write to.
        requests: What operators ask of this process.
        live_map: The flow's offset map in memory, if this process replicates the flow.
        claims: The claims to leases that began before Spark did; `claim` makes the others.
        standby: Whether to wait for a lease that another process holds.
        head_start: Of the records of this process's flows before their background queries.
    """

    config: FlowConfig
    spark: SparkSession
    tables: Tables
    source: Cluster
    target: Cluster
    requests: RequestChannel
    live_map: LiveMap = field(default_factory=LiveMap)
    claims: dict[LeaseName, Claim] = field(default_factory=dict)
    standby: bool = False
    head_start: HeadStart = field(default_factory=HeadStart)

    @property
    def jvm(self) -> JVMView:
        """The session's JVM, which has Java's Kafka client."""
        return jvm_of(self.spark)

    @property
    def accept_requests(self) -> AcceptRequests:
        """What operators have accepted, and the flow has not used yet."""
        return AcceptRequests(self.requests, self.config.flow)

    def claim(self, part: str = "") -> Claim:
        """A claim to the lease of the flow's records or of another *part*."""
        name = LeaseName(self.config.flow, part)
        claim = self.claims.pop(name, None)
        return claim or claim_lease(self.jvm, self.tables.root, self.config, name)


def claim_lease(jvm: JVMView, state_dir: str, config: FlowConfig, name: LeaseName) -> Claim:
    """A claim to the lease *name* of the flow *config*; the group is joined from *jvm*."""
    target = config.target
    return Claim(
        name,
        state_dir,
        join_from(jvm, target.consumer, name),
        producer="" if name.part else producer_client_id(target.producer, config.flow),
        target=target.consumer,
    )
