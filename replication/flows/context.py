"""What a flow works with: opened once by the application, passed to whoever needs it."""

from dataclasses import dataclass

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.spark.session import jvm_of
from replication.state.tables import Tables


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The configuration, the sessions, the tables and the two clusters of one flow.

    Args:
        config: The flow.
        spark: The session of the flow's own query.
        tables: Of the state directory; they have a session of their own for small queries.
        source: Where records are read.
        target: Where records are written.
    """

    config: FlowConfig
    spark: SparkSession
    tables: Tables
    source: Cluster
    target: Cluster

    @property
    def jvm(self) -> JVMView:
        """The session's JVM, which has Java's Kafka client."""
        return jvm_of(self.spark)
