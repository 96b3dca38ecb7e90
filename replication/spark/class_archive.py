"""The class archive: Spark's and Delta's classes in the form that the JVM maps into memory.

Java calls this class data sharing. An archive holds classes that lie on the JVM's own class path,
in one order, so the connector's jars are put there. Set-up makes it, by a run of
`replication.app.train`. Java ignores one that does not fit its version or its class path.
"""

import os
from pathlib import Path
from typing import Final

from replication.config.home import connector_jars, home

QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""An archive that does not fit costs seconds of a start, and no lines of a log."""


def folder() -> Path:
    """Returns where set-up keeps the archive, and in two text files the options that use it."""
    return home() / "class-archive"


def class_path() -> str:
    """Returns the jars that Spark needs besides its own, in the order of the archive."""
    return os.pathsep.join(map(str, connector_jars()))


def archive_options() -> tuple[str, str]:
    """Class path and Java options of a driver that uses the archive; "" twice if there is none."""
    try:
        return (folder() / "class-path").read_text(), (folder() / "java-options").read_text()
    except OSError:
        return "", ""
