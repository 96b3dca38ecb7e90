"""The Spark session: the one place that builds it, with the settings replication rests on."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from py4j.java_gateway import JVMView
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_LOG4J2 = Path(__file__).resolve().parents[2] / "conf" / "log4j2.properties"
_QUIET = f" -Dlog4j2.configurationFile={_LOG4J2}" if _LOG4J2.exists() else ""  # not in a wheel

# Each of these is a decision; design.md D2, D8 and section 2 say what each was measured to do.
REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A retried or speculated task would write a partition's records twice and out of order.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    "spark.sql.adaptive.enabled": "false",
    # CAST(bigint AS binary), the carrier of the timestamp, is big-endian bytes and not ANSI SQL.
    "spark.sql.ansi.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The books are read from the progress events; a flush every few seconds must find them all.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # Spark's own progress is scratch here (D4), so the cheaper file manager is safe.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    # The data query has a pool of its own, so that bookkeeping need not queue behind its tasks.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}

# The tables are small: compiling a query for them costs seconds and is worth nothing.
BOOKKEEPING = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.stats.collect": "false",
}

LOCAL = {
    # Short sessions: the quick compiler alone halves the CPU seconds of a start.
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1{_QUIET}",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(app: str) -> SparkSession:
    """The session of a submitted job; master, jars and memory are spark-submit's."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    for key, value in REQUIRED.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def local_session(jars: Sequence[Path], slots: int, app: str) -> SparkSession:
    """A session in this process, for the command line's queries and for tests.

    Args:
        jars: The connector, Delta and the interceptor.
        slots: Task slots; at least one per partition of every Real-Time flow, and some more.
        app: Shows in logs.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{slots}]").appName(app)
    for key, value in {**REQUIRED, **LOCAL}.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.jars", ",".join(map(str, jars))).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def bookkeeping_session(spark: SparkSession) -> SparkSession:
    """A session of the same application for the small tables, see `BOOKKEEPING`."""
    books = spark.newSession()
    for key, value in BOOKKEEPING.items():
        books.conf.set(key, value)
    return books


def frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """*rows* as a frame; absent columns are null, times are aware datetimes.

    `createDataFrame` sends a list through Python workers, which take seconds to start; a JSON
    literal is read in the JVM.
    """
    text = json.dumps(list(rows), default=datetime.isoformat)
    parsed = F.from_json(F.lit(text), f"array<struct<{schema}>>")
    return spark.range(1).select(F.inline(parsed))


def ticks(spark: SparkSession) -> DataFrame:
    """A stream of one row in each micro-batch: what a query runs on that only needs the time."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return stream.option("numPartitions", 1).load()


def jvm_of(spark: SparkSession) -> JVMView:
    """py4j's view of the session's JVM, which has the clients of Kafka and Hadoop."""
    return spark.sparkContext._jvm  # noqa: SLF001 - it has no public name


def task_slots(spark: SparkSession) -> int:
    """How many tasks run at once: what Real-Time Mode needs one of for each partition."""
    return int(spark.sparkContext.defaultParallelism)
