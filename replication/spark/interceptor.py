"""The producer interceptor that restores timestamps, and its count of records in flight."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replication.model import Flow

INTERCEPTOR: Final = "replication.producer.PreserveTimestamps"

CARRIER: Final = b"\x8forg"
"""Begins the key of a record on its way to the interceptor, which takes the record's timestamp and
offset from there and puts the original key back. In a header, of which Spark makes several objects,
they cost a sixth more CPU for records of 100 bytes."""

OWNER_ONLY: Final = "replication.producer.OwnerOnly"
"""The interceptor that stops a producer whose process has lost the lease."""


def unacknowledged(spark: SparkSession, flow: Flow, slots: int) -> int:
    """Returns the records that executors have sent for *flow* and that have no acknowledgement yet.

    For sessions without the plugin of `replication.spark.acknowledged`. One task per slot reads the
    count of its executor. An executor that runs no such task, or is lost, is not counted:
    `settled_log_ends` also waits until the log end stops moving.

    Args:
        spark: The session.
        flow: Whose records.
        slots: The tasks that the session can run at once.
    """
    slots = max(1, slots)
    call = F.expr(f"cast(java_method('{INTERCEPTOR}', 'unacknowledged', '{flow}') as bigint)")
    rows = spark.range(0, slots, 1, slots).select(call.alias("records")).collect()
    return max((row["records"] for row in rows), default=0)
