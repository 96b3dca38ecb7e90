"""Locates what set-up has installed: the local environment, and our Java classes."""

import os
import re
import shlex
from collections.abc import Mapping
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


SERIAL: Final = "-XX:+UseSerialGC"
PARALLEL: Final = "-XX:+UseParallelGC"

VARIABLES: Final = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "_JAVA_OPTIONS",
)
"""Where a JVM, its launcher and spark-submit find options of the user's."""

_CHOICE: Final = re.compile(r"-XX:\+Use\w+GC\b")


def collector(wanted: str, environ: Mapping[str, str], *options: str | None) -> list[str]:
    """Returns *wanted* as an option; none if another is there: such a JVM does not start.

    Args:
        wanted: Chooses the collector that we would take.
        environ: The environment; its `VARIABLES` are read.
        options: The other options of the JVM, each text with any number of them.
    """
    texts = [*options, *map(environ.get, VARIABLES)]
    return [] if any(_CHOICE.search(text) for text in texts if text) else [wanted]


def written(*options: str) -> str:
    """Returns *options* as one text, from which Spark's launcher takes them as they are.

    It splits the text at blanks, as a shell does, and knows a shell's quotes.
    """
    return shlex.join(options)


def logging_option(file: Path) -> str:
    """Returns the option that names *file* to log4j, as a URI where the path has odd characters."""
    return written(f"-Dlog4j2.configurationFile={file.as_uri()}")
