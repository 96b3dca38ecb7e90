"""Tells the tasks of a flow with the shared source which partitions they do not read for now."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from replication.model import Flow, TopicPartition
from replication.spark.session import jvm_of


def pause_partitions(spark: SparkSession, flow: Flow, partitions: Iterable[TopicPartition]) -> None:
    """Lets no task of *flow* read *partitions* from now on; takes back what was said before.

    Executors hear of it with their next report, within half a second.
    """
    lines = "".join(f"{tp.topic}\t{tp.partition}\n" for tp in sorted(partitions))
    pauses: Any = jvm_of(spark).replication.plugin.Pauses
    pauses.pause(str(flow), lines)
