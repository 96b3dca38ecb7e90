"""The user's own Java classes in place of MirrorMaker 2's: a policy and three filters. Pure.

They are asked for their answers where something is planned, never for a record, and once for each
name. How Java is asked, the process says by `ask_with`: the rules know no JVM.
"""

# ruff: noqa: D102  # `ReplicationPolicy` documents the methods

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

POLICY: Final = "replication.policy.class"
TOPIC_FILTER: Final = "topic.filter.class"
GROUP_FILTER: Final = "group.filter.class"
SETTING_FILTER: Final = "config.property.filter.class"
CLASSES: Final = (POLICY, TOPIC_FILTER, GROUP_FILTER, SETTING_FILTER)
MOST_ANSWERS: Final = 200_000
"""How many answers are remembered: several for each topic, group and setting."""


@dataclass(frozen=True, slots=True)
class CustomClass:
    """A class that a configuration names.

    Args:
        key: The key that names it, as the file has it.
        name: Its full name.
        properties: What its method ``configure`` gets, in Java's key space.
    """

    key: str
    name: str
    properties: tuple[tuple[str, str], ...]

    def ask(self, method: str, *arguments: str) -> Any:  # noqa: ANN401 - a string, a bool or None
        """Asks one of its methods.

        Raises:
            SetupError: The class is missing, or fails.
        """
        return _answer(self, method, arguments)


Ask = Callable[[CustomClass, str, tuple[str, ...]], Any]
_ASK: Final[list[Ask]] = []


def ask_with(ask: Ask) -> None:
    """Sets how this process asks Java."""
    _ASK[:] = [ask]
    _answer.cache_clear()


@lru_cache(maxsize=MOST_ANSWERS)
def _answer(custom: CustomClass, method: str, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401
    return _ASK[0](custom, method, arguments)


@dataclass(frozen=True, slots=True)
class CustomPolicy:
    """A `ReplicationPolicy` of the user's."""

    custom: CustomClass

    def remote_topic(self, source: str, topic: str) -> str:
        return str(self.custom.ask("formatRemoteTopic", source, topic))

    def topic_source(self, topic: str) -> str | None:
        return _text(self.custom.ask("topicSource", topic))

    def upstream_topic(self, topic: str) -> str | None:
        return _text(self.custom.ask("upstreamTopic", topic))

    def original_topic(self, topic: str) -> str:
        return str(self.custom.ask("originalTopic", topic))

    def is_heartbeats_topic(self, topic: str) -> bool:
        return bool(self.custom.ask("isHeartbeatsTopic", topic))

    def is_checkpoints_topic(self, topic: str) -> bool:
        return bool(self.custom.ask("isCheckpointsTopic", topic))

    def is_internal_topic(self, topic: str) -> bool:
        return bool(self.custom.ask("isInternalTopic", topic))

    def heartbeats_topic(self) -> str:
        return str(self.custom.ask("heartbeatsTopic"))

    def checkpoints_topic(self, source: str) -> str:
        return str(self.custom.ask("checkpointsTopic", source))

    def offset_syncs_topic(self, other: str) -> str:
        return str(self.custom.ask("offsetSyncsTopic", other))


def _text(answer: object) -> str | None:
    return None if answer is None else str(answer)
