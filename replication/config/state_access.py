"""How the state directory is reached: the keys for it, and Hadoop's properties. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from replication.config.client_keys import ClientProperties
from replication.config.config_key import NOT_MM2, ConfigKey
from replication.config.values import Diagnostics, Raw, known, text

EngineChoice = Literal["auto", "delta-rs", "spark"]

ENGINE: Final = ConfigKey(
    "state.engine",
    "choice",
    "auto",
    "what reads and writes the Delta tables; `auto`: delta-rs where it has credentials for "
    "state.dir, else Spark. The same for all processes that share a state.dir",
    NOT_MM2,
    choices=get_args(EngineChoice),
    places=("top",),
)


@dataclass(frozen=True, slots=True)
class StateAccess:
    """A state directory and what is needed to reach it.

    Args:
        state_dir: Its URI.
        hadoop: Hadoop's properties for it, where it is not on this machine.
        engine: What reads and writes its tables.
    """

    state_dir: str
    hadoop: Mapping[str, str] = field(default_factory=dict)
    engine: EngineChoice = "auto"


# Hadoop's properties in a configuration: ``hadoop.fs.s3a.endpoint`` and the like.
#
# Hadoop has no list of its properties, so any name is taken.

HADOOP: Final = "hadoop."
_OF_SPARK: Final = "spark.hadoop."


def check_hadoop_key(diagnostics: Diagnostics, key: str) -> None:
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
