"""A topic whose groups move from one cluster to the other, its copy, and the table of groups."""

from pathlib import Path

from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from tests.support import topics
from tests.support.cli import ok, run
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters

PARTITIONS = 3


def drain(spark: SparkSession, clusters: Clusters, folder: Path, topic: str) -> RunningFlow:
    """Copies *topic*; the state is where `write_config` names it."""
    flow = RunningFlow(spark, folder / "state", flow_config(*clusters, topic), "drain")
    flow.join()
    return flow


def send(broker: Broker, topic: str, count: int) -> None:
    """Sends *count* records to the partitions of *topic* in turn."""
    topics.send(broker, topic, PARTITIONS, count)


def table(file: Path, group: str) -> str:
    """What ``groups`` prints of the groups whose names begin with *group*."""
    return ok(run("groups", file, "--flow", "A->B", "--group", f"{group}.*")).stdout
