"""The tail of a stopped producer: when the target's log may be believed.

After a query is stopped, Spark's pooled producer goes on sending what the cancelled tasks had
handed to it (measured: 10 000 records within 250 ms). Positions read too early would be repeated.
"""

import time
from collections.abc import Collection

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replication.errors import ClusterError
from replication.io.admin import Cluster
from replication.io.kafka_options import INTERCEPTOR
from replication.model import TopicPartition

STILL_SECONDS = 0.6
LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 120


def unacknowledged(spark: SparkSession, client_id: str) -> int:
    """Records that executors have sent for *client_id* and the target has not yet answered.

    0 where the interceptor is not used. Each executor is asked by tasks, as many as there are
    slots; one that gets no task, or is lost, is not heard: the standing log speaks for it.
    """
    slots = spark.sparkContext.defaultParallelism
    call = F.expr(f"cast(java_method('{INTERCEPTOR}', 'unacknowledged', '{client_id}') as bigint)")
    try:
        rows = spark.range(0, slots, 1, slots).select(call.alias("records")).collect()
    except PySparkException:
        return 0  # record.timestamps=broker runs without the class
    return max((row["records"] for row in rows), default=0)


def standing_log_ends(
    target: Cluster, partitions: Collection[TopicPartition], spark: SparkSession, client_id: str
) -> dict[TopicPartition, int]:
    """The log end offsets of *partitions* once nothing of ours is on its way to them.

    Raises:
        ClusterError: They went on growing: somebody else writes to these topics, or the target
            does not answer and records still wait for it.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    ends = target.log_ends(partitions)
    since = time.monotonic()
    while time.monotonic() - since < STILL_SECONDS or unacknowledged(spark, client_id):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the topics on cluster {target.alias} still grow {PATIENCE_SECONDS} s after the "
                "flow stopped; find who else writes to them, then start again"
            )
        time.sleep(LOOK_SECONDS)
        now = target.log_ends(partitions)
        if now != ends:
            ends, since = now, time.monotonic()
    return ends
