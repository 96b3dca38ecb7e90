"""The open connections of one flow."""

from dataclasses import dataclass, field

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.flows.recent_runs import RecentRuns
from replication.kafka.cluster import Cluster
from replication.spark.session import jvm_of
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
        recent: The flow's newest runs.
    """

    config: FlowConfig
    spark: SparkSession
    tables: Tables
    source: Cluster
    target: Cluster
    recent: RecentRuns = field(default_factory=RecentRuns)

    @property
    def jvm(self) -> JVMView:
        """The session's JVM, which has Java's Kafka client."""
        return jvm_of(self.spark)
