"""The options of a JVM that we start: how they are written, and its garbage collector. Pure."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
