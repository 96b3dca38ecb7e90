"""Hadoop's properties in a configuration: ``hadoop.fs.s3a.endpoint`` and the like. Pure.

Hadoop has no list of its properties, so any name is taken.
"""

from collections.abc import Mapping
from typing import Final

from replication.config.clients.secrets import ClientProperties
from replication.config.values import Diagnostics, Raw, known, text

HADOOP: Final = "hadoop."
_OF_SPARK: Final = "spark.hadoop."


def check_hadoop_key(diagnostics: Diagnostics, key: str) -> None:
    """Checks the name of a key at top level that begins with `HADOOP`."""
    name = key.removeprefix(HADOOP)
    if name.startswith(_OF_SPARK):
        right = f"{HADOOP}{name.removeprefix(_OF_SPARK)}"
        diagnostics.problem(key, f"has Spark's prefix as well; write {right}")
    elif not name or any(not part for part in name.split(".")):
        diagnostics.problem(
            key, f"is not a Hadoop property; write, for example, {HADOOP}fs.s3a.endpoint"
        )


def note_unused(diagnostics: Diagnostics, settings: Mapping[str, Raw], state_dir: str) -> None:
    """Notes the properties of a state directory that is reached without Hadoop."""
    if state_dir.startswith(("/", "file:")):
        for key in settings:
            if key.startswith(HADOOP):
                diagnostics.unused(key, f"has no effect: state.dir is the local {state_dir}")


def hadoop_properties(settings: Mapping[str, Raw]) -> ClientProperties:
    """Returns Hadoop's properties among the *settings* at top level; the repr masks secrets."""
    given = {
        key: text(known(raw)).strip() for key, raw in settings.items() if key.startswith(HADOOP)
    }
    return ClientProperties({key.removeprefix(HADOOP): value for key, value in given.items()})
