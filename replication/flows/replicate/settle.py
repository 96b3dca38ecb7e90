"""The tail of a stopped producer: when the target's log may be believed.

After a query is stopped, Spark's pooled producer goes on sending what the cancelled tasks had
handed to it (measured: 10 000 records within 250 ms). Positions read too early would be repeated.
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
) -> dict[TopicPartition, int]:
    """The log end offsets of *partitions* once nothing of ours is on its way to them.

    Args:
        target: The cluster.
        partitions: Remote ones.
        spark: Whose executors are asked what is on its way.
        client_id: Of the producer; None where no interceptor counts, so that the log alone tells.

    Raises:
        ClusterError: They went on growing: somebody else writes to these topics, or the target
            does not answer and records still wait for it.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    ends: dict[TopicPartition, int] = {}
    since = time.monotonic()
    while time.monotonic() < deadline:
        # asked before the log is read: what is answered by then is in what is read
        is_quiet = client_id is None or unacknowledged(spark, client_id) == 0
        now = target.log_ends(partitions)
        if now != ends:
            ends, since = now, time.monotonic()
        elif is_quiet and time.monotonic() - since >= STILL_SECONDS:
            return ends
        time.sleep(POLL_SECONDS)
    raise ClusterError(
        f"the topics on cluster {target.alias} still grow {PATIENCE_SECONDS} s after the flow "
        "stopped; find who else writes to them, then start again"
    )
