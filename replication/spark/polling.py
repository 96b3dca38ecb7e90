"""How long an idle query of micro-batches waits before it asks the source for new records again.

Spark's default is 10 ms, whatever the question costs: with 31 idle partitions the mirror used a
fifth of a core for it, and the source answered 70 times a second.
"""

from pyspark.sql import SparkSession

DELAY = "spark.sql.streaming.pollingDelay"
LEAST_MS = 25
"""A sparse topic's records wait half of it on average."""

PARTITIONS_PER_MS = 4
"""The question is about all partitions, so that its cost grows with them."""


def polling_delay_ms(partitions: int) -> int:
    """The pause of a query over so many partitions."""
    return max(LEAST_MS, partitions // PARTITIONS_PER_MS)


def limit_polling(spark: SparkSession, partitions: int) -> None:
    """Sets the pause of each query that *spark* starts later; an operator's own value stays."""
    if not spark._jsparkSession.sessionState().conf().contains(DELAY):  # noqa: SLF001
        spark.conf.set(DELAY, f"{polling_delay_ms(partitions)}ms")
