"""What this machine has: set-up's folder, the configuration file, a small Spark session."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from replication.config_model import MirrorConfig
from replication.errors import StateError
from replication.io.config_file import load
from replication.io.session import local_session
from replication.io.tables import Tables


def home() -> Path:
    """Where set-up keeps the environment, the jars and the default state directory."""
    named = os.environ.get("REPLICATION_HOME")
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".local"


def load_config(file: str) -> MirrorConfig:
    """The configuration in *file*, with this process's environment; raises `ConfigError`."""
    state_dir = (home() / "state").absolute().as_uri()
    return load(file, environ=os.environ, default_state_dir=state_dir)


def spark_jars() -> list[Path]:
    """The jars Spark needs besides its own, as set-up has resolved and compiled them.

    Raises:
        StateError: There are none.
    """
    interceptor = Path(__file__).resolve().parents[1] / "jvm" / "preserve-timestamps.jar"
    jars = sorted((home() / "jars" / "spark").glob("*.jar"))
    if not jars or not interceptor.exists():
        raise StateError(f"no JVM jars under {home()}: run ./spark-submit.sh --setup first")
    return [*jars, interceptor]


@contextmanager
def local_spark() -> Iterator[SparkSession]:
    """A small Spark session that ends with the block."""
    spark = local_session(spark_jars(), slots=2, app="replication command line")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def local_tables(state_dir: str) -> Iterator[Tables]:
    """The tables of *state_dir*, through a session that ends with the block."""
    with local_spark() as spark:
        yield Tables(spark, state_dir)
