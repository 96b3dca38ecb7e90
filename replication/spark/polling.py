"""How long an idle query of micro-batches waits before it asks the source for new records again.

Spark's default is 10 ms, whatever the question costs: with 31 idle partitions the mirror used a
fifth of a core for it, and the source answered 70 times a second.
"""

from pyspark.sql import SparkSession

DELAY = "spark.sql.streaming.pollingDelay"
LEAST_MS = 10
"""Spark's own: a sparse topic's records wait half of it on average."""

FEW_PARTITIONS_MS = 25
"""The pause of 25 to 100 partitions; below 25, a millisecond for each of them."""

_OURS = "spark.replication.pollingDelay"
"""The pause that an earlier call set: another one may follow, for other partitions."""

PARTITIONS_PER_MS = 4
"""The question is about all partitions, so that its cost grows with them."""


def polling_delay_ms(partitions: int) -> int:
    """Returns the pause of a query over that many partitions."""
    few = min(partitions, FEW_PARTITIONS_MS)
    return max(LEAST_MS, few, partitions // PARTITIONS_PER_MS)


def limit_polling(spark: SparkSession, partitions: int) -> None:
    """Sets the pause of each query that *spark* starts later; an operator's own value stays."""
    is_set = spark._jsparkSession.sessionState().conf().contains(DELAY)  # noqa: SLF001
    if not is_set or spark.conf.get(DELAY) == spark.conf.get(_OURS, None):
        delay = f"{polling_delay_ms(partitions)}ms"
        spark.conf.set(DELAY, delay)
        spark.conf.set(_OURS, delay)
