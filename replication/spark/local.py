"""A small Spark session on this machine, with the jars that set-up has downloaded."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from replication.config.home import OUR_JAR, connector_jars, home, storage_class_path
from replication.errors import SetupError
from replication.spark.hadoop import set_hadoop_properties
from replication.spark.session import local_session


def spark_jars() -> list[Path]:
    """Returns the jars that Spark needs besides its own, from the set-up's folder.

    Raises:
        SetupError: There are none.
    """
    jars = connector_jars()
    if not jars or not OUR_JAR.exists():
        raise SetupError(f"no JVM jars under {home()}: run ./spark-submit.sh --setup first")
    return [*jars, OUR_JAR]


@contextmanager
def local_spark(hadoop: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields a small Spark session with Hadoop's properties *hadoop*, which ends with the block.

    One that was there before is used, and outlives it.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - it has no public name
        yield SparkSession.builder.getOrCreate()
        return
    with _silent_stderr():
        spark = local_session(
            spark_jars(), 2, "replication command line", class_path=storage_class_path()
        )
    try:
        set_hadoop_properties(spark, hadoop)
        yield spark
    finally:
        spark.stop()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards stderr, also that of processes started in the block.

    The JVM writes warnings there before any logging is configured. Its failures reach Python.
    """
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
