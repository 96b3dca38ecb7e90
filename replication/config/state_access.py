"""How the state directory is reached, as the configuration says it. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from replication.config.config_key import NOT_MM2, ConfigKey

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
