"""Spark for a question from the command line: a small session on this machine, quiet and short."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replication.errors import StateError
from replication.io.session import local_session
from replication.io.tables import Tables


def home() -> Path:
    """Where set-up keeps the environment, the jars and the default state directory."""
    named = os.environ.get("REPLICATION_HOME")
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".local"


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
def local_tables(state_dir: str) -> Iterator[Tables]:
    """The tables of *state_dir*, through a session that ends with the block."""
    spark = local_session(spark_jars(), slots=2, app="replication command line")
    try:
        yield Tables(spark, state_dir)
    finally:
        spark.stop()
