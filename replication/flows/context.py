"""What a flow works with: opened once by the application, passed to whoever needs it."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from replication.kafka.cluster import Cluster
from replication.state.tables import Tables


@dataclass(frozen=True, slots=True)
class World:
    """A session, the books, and the two clusters of one flow."""

    spark: SparkSession
    tables: Tables
    source: Cluster
    target: Cluster
