"""What counting a record costs in a flow of 1, 100 and 2000 topics, in microseconds.

The observed count of a batch is the only expression whose cost could grow with the number of
topics. This times it alone, over records that Spark generates in one task:

    .local/venv/bin/python -m tests.bench.counting
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from replication.model import TopicPartition
from replication.spark.progress import counts_column
from replication.spark.session import local_session, spark_jars

RECORDS = 3_000_000
ROUNDS = 3


def main() -> int:
    """Prints the table."""
    spark = local_session(spark_jars(), 1, "counting")
    try:
        table = Table(title=f"{RECORDS:,} records, the best of {ROUNDS} rounds")
        for heading in ("topics", "µs per record"):
            table.add_column(heading, justify="right")
        for topics in (1, 100, 2000):
            table.add_row(f"{topics:,}", f"{_microseconds(spark, topics):+.3f}")
        Console().print(table)
    finally:
        spark.stop()
    return 0


def _microseconds(spark: SparkSession, topics: int) -> float:
    """Of counting, beyond a histogram of the topic's length; below zero where that costs more."""
    names = [f"some.ordinary.topic.{number}" for number in range(topics)]
    partitions = [TopicPartition(name, 0) for name in names]
    last = (F.col("id") * 0 + topics - 1).cast("string")  # not a constant, which Spark would fold
    records = spark.range(0, RECORDS, 1, 1).select(
        F.concat(F.lit("some.ordinary.topic."), last).alias("topic"),
        (F.col("id") * 0).cast("int").alias("partition"),
    )
    nothing = F.histogram_numeric(F.length("topic"), F.lit(2))
    counted = min(_seconds(records.agg(counts_column(partitions))) for _ in range(ROUNDS))
    generated = min(_seconds(records.agg(nothing)) for _ in range(ROUNDS))
    return (counted - generated) * 1e6 / RECORDS


def _seconds(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.collect()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
