"""The two sides of a flow, as whoever asks where its partitions resume needs them."""

from typing import Protocol

from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster


class FlowSides(Protocol):
    """A flow's configuration, both clusters, and a session that compares many records.

    A running flow has these open. Whoever only asks may open the session when it is asked for.
    """

    @property
    def config(self) -> FlowConfig:
        """The flow."""

    @property
    def source(self) -> Cluster:
        """The cluster to read from."""

    @property
    def target(self) -> Cluster:
        """The cluster to write to."""

    @property
    def spark(self) -> SparkSession:
        """Reads and compares whole spans of records."""
