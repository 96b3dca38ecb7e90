"""Locates what set-up has installed: the local environment, and our Java classes."""

import os
from pathlib import Path
from typing import Final

OUR_JAR: Final = Path(__file__).resolve().parents[1] / "jvm" / "replication.jar"
"""Our Java classes. Set-up compiles them; a wheel contains them."""

NEEDS_SPARK: Final = (
    "this needs Spark, which is not installed: pip install 'kafka-replication-on-spark[spark]'"
)


def home() -> Path:
    """Returns the folder of the Python environment, the jars and the default state directory."""
    configured = os.environ.get("REPLICATION_HOME")
    default = Path(__file__).resolve().parents[2] / ".local"
    return Path(configured).absolute() if configured else default


RUN_FOLDER: Final = "REPLICATION_RUN"
"""The environment variable with the folder that spark-submit.sh has made for this process alone."""


def connector_jars(name: str = "*") -> list[Path]:
    """Returns the jars called *name*, without ``.jar``, that set-up has downloaded for Spark."""
    return sorted((home() / "jars" / "spark").glob(f"{name}.jar"))


def storage_class_path() -> str:
    """Returns the jars of object storage as a class path; empty without ``--setup s3``."""
    folder = home() / "jars" / "s3"
    return f"{folder}/*" if folder.is_dir() else ""
