"""What it costs that an expression of a transform is guarded, in microseconds of CPU a record.

The same expressions are evaluated with and without `replication.transform.Guarded`, over records
that Spark generates in one task; the JIT compilers' own time is left out:

    .local/venv/bin/python -m tests.bench.guard
"""

import os
import sys
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from replication.model import Transform
from replication.spark.copies import HEADERS, transformed
from replication.spark.session import local_session, spark_jars
from tests.bench.transforms import SQL, VALUE
from tests.bench.usage import usage

RECORDS = 100_000
ROUNDS = 5
LAMBDA = "filter(headers, h -> h.key != 'none')"
KINDS = {
    "mask of a value": {"value": SQL["mask of a value"]["value"]},
    "hash of a key": {"key": SQL["hash of a key"]["key"]},
    "lambda over two headers": {"headers": LAMBDA},
}


def main() -> int:
    """Prints the table."""
    spark = local_session(spark_jars(), 1, "guard")
    try:
        load = os.getloadavg()[0]
        table = Table(
            title=f"{RECORDS:,} records, median of {ROUNDS} (least to greatest), load {load:.0f}"
        )
        for heading in ("", "bare", "guarded"):
            table.add_column(heading, justify="right" if heading else "left")
        for kind, parts in KINDS.items():
            table.add_row(kind, *_measured(spark, parts))
        Console().print(table)
    finally:
        spark.stop()
    return 0


def _measured(spark: SparkSession, parts: dict[str, str]) -> list[str]:
    records = _records(spark)
    key, value, headers = (parts.get(part, "") for part in ("key", "value", "headers"))
    step = Transform(name="x", topics=("filled",), key=key, value=value, headers=headers)
    bare = {
        name: F.when(F.col("topic").isin(["filled"]), F.expr(text)).otherwise(F.col(name))
        for name, text in parts.items()
    }
    frames = (records.withColumns(bare), transformed(records, {"filled": (step,)}))
    rounds = [[_microseconds(frame) for frame in frames] for _ in range(ROUNDS + 1)][1:]
    return [
        f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"
        for found in zip(*rounds, strict=True)
    ]


def _records(spark: SparkSession) -> DataFrame:
    number = F.col("id").cast("string")
    value = F.concat(*(part for text in VALUE.split("%d") for part in (F.lit(text), number)))
    return spark.range(0, RECORDS, 1, 1).select(
        number.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.concat(F.lit("fill"), F.when(F.col("id") >= 0, "ed")).alias("topic"),
        (F.col("id") * 0).cast("int").alias("partition"),
        F.col("id").alias("offset"),
        F.expr(
            "array(struct('trace' as key, X'4b' as value), struct('origin' as key, X'65' as value))"
        )
        .cast(HEADERS)
        .alias("headers"),
    )


def _microseconds(frame: DataFrame) -> float:
    before = usage(os.getpid())
    frame.write.format("noop").mode("overwrite").save()
    used = usage(os.getpid()) - before
    return (used.cpu_seconds - used.jit_seconds) * 1e6 / RECORDS


if __name__ == "__main__":
    sys.exit(main())
