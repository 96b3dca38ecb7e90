"""The two sides of a flow, as whoever asks where its partitions resume needs them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig
from replication.errors import ClusterError, SetupError, first_line
from replication.kafka.cluster import Cluster
from replication.model import Flow
from replication.spark.causes import said
from replication.spark.mode import Sharing
from replication.spark.session import local_spark, sharing_of


class FlowClients(Protocol):
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

    @property
    def started_spark(self) -> SparkSession | None:
        """The same session, if it has started: else nothing of this process is in flight."""


class IdleFlowClients(AbstractContextManager["IdleFlowClients"]):
    """The sides of a flow that does not run, for a question about it.

    Its session starts on this machine when records are to be compared, and ends with the block.

    Args:
        config: The flow.
        clusters: Its source and target.
    """

    def __init__(self, config: FlowConfig, clusters: tuple[Cluster, Cluster]) -> None:
        self.config = config
        self.source, self.target = clusters
        self._session = ExitStack()

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def started_spark(self) -> SparkSession | None:
        """None: whoever only asks sends nothing."""
        return None

    @cached_property
    def spark(self) -> SparkSession:
        """Reads and compares whole spans of records."""
        try:
            return self._session.enter_context(local_spark({}))
        except (PySparkException, Py4JError) as error:
            raise SetupError(
                f"flow {self.config.flow}: records of both clusters must be compared, but Spark "
                f"does not start on this machine: {first_line(error)}"
            ) from error


def sharing(context: FlowClients) -> Sharing | None:
    """Returns how tasks share the partitions whose records are compared; None by Spark's source.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    brokers = max(len(cluster.brokers()) for cluster in (context.source, context.target))
    return sharing_of(context.spark, config.record_source, config.tasks_max, brokers)


@contextmanager
def compared(flow: Flow) -> Iterator[None]:
    """Turns errors of Spark's jobs in the block, which compare records of *flow*, into ours."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = f"flow {flow}: comparing records of both clusters failed: {said(error)}"
        raise ClusterError(text) from error
