"""Waits until a stopped query's producers have nothing left in flight.

After a query is stopped, Spark's pooled producer continues to send the records of the cancelled
tasks (10 000 records within 250 ms were seen). Positions read before that would repeat records.
"""

import time
from collections.abc import Collection

from pyspark.sql import SparkSession

from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.spark.interceptor import unacknowledged

STILL_SECONDS = 0.6
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 120


def settled_log_ends(
    target: Cluster,
    partitions: Collection[TopicPartition],
    spark: SparkSession,
    client_id: str | None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> dict[TopicPartition, int]:
    """The log end offsets of *partitions*, once none of our records is in flight to them.

    Args:
        target: The target cluster.
        partitions: Remote partitions.
        spark: The session whose executors count the records in flight.
        client_id: The producer's client id; None without an interceptor, where only the log ends
            count.
        patience_seconds: How long to wait.

    Raises:
        ClusterError: The logs did not stop growing: another producer writes to these topics, or
            records in flight wait for the target.
    """
    deadline = time.monotonic() + patience_seconds
    ends: dict[TopicPartition, int] = {}
    since = time.monotonic()
    while time.monotonic() < deadline:
        # read before the log ends, which then include every record acknowledged by now
        is_quiet = client_id is None or unacknowledged(spark, client_id) == 0
        now = target.log_ends(partitions)
        if now != ends:
            ends, since = now, time.monotonic()
        elif is_quiet and time.monotonic() - since >= STILL_SECONDS:
            return ends
        time.sleep(POLL_SECONDS)
    raise ClusterError(
        f"the topics on cluster {target.alias} still grow {patience_seconds:g} s after the flow "
        "stopped; find the other producer that writes to them, then start again"
    )
