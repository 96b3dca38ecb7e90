"""The producer interceptor that restores record timestamps, and the count it keeps."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

INTERCEPTOR: Final = "replication.PreserveTimestamps"

CARRIER: Final = "__replication.timestamp"
"""The header that carries a record's timestamp to the interceptor, which removes the header."""

INTERCEPTOR_JAR: Final = Path(__file__).resolve().parents[1] / "jvm" / "preserve-timestamps.jar"
"""The compiled class. Set-up compiles it; a wheel contains it."""


def unacknowledged(spark: SparkSession, client_id: str) -> int:
    """The records that executors have sent for *client_id* and that have no acknowledgement yet.

    One task per slot reads the count of its executor. An executor that runs no such task, or is
    lost, is not counted: `settled_log_ends` also waits until the log end stops moving.
    """
    slots = spark.sparkContext.defaultParallelism
    call = F.expr(f"cast(java_method('{INTERCEPTOR}', 'unacknowledged', '{client_id}') as bigint)")
    rows = spark.range(0, slots, 1, slots).select(call.alias("records")).collect()
    return max((row["records"] for row in rows), default=0)
