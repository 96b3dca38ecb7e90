"""The garbage collector of a JVM that we start, unless its user has chosen one. Pure."""

import re
from collections.abc import Mapping
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
    """*wanted* as an option; none if there is another one, because such a JVM does not start.

    Args:
        wanted: Chooses the collector that we would take.
        environ: The environment, of which `VARIABLES` are read.
        options: The other options of the JVM, each text with any number of them.
    """
    texts = [*options, *map(environ.get, VARIABLES)]
    return [] if any(_CHOICE.search(text) for text in texts if text) else [wanted]
