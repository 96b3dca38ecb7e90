"""Names topics on the target exactly as MirrorMaker 2 4.x does. Pure.

The rules work on names alone; whether a topic exists does not matter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

HEARTBEATS = "heartbeats"


class ReplicationPolicy(Protocol):
    """Names remote topics, and reads source and upstream topic back from such a name."""

    def remote_topic(self, source: str, topic: str) -> str:
        """Returns the name of *topic* of cluster *source* on the target."""

    def topic_source(self, topic: str) -> str | None:
        """Returns the alias of the cluster *topic* was replicated from; None without one."""

    def upstream_topic(self, topic: str) -> str | None:
        """Returns *topic*'s name on the cluster it was replicated from; None without a source."""

    def original_topic(self, topic: str) -> str:
        """Returns the name of *topic* on the cluster where it was created, without any hop."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Returns whether *topic* is ``heartbeats`` or its remote topic over any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Returns whether *topic* holds the group checkpoints of a source."""

    def is_internal_topic(self, topic: str) -> bool:
        """Returns whether *topic* is internal to the replication or Kafka; such are not copied."""

    def heartbeats_topic(self) -> str:
        """Returns the name of the heartbeats topic, the same on every cluster."""

    def checkpoints_topic(self, source: str) -> str:
        """Returns the topic on the target that holds the group checkpoints of *source*."""

    def offset_syncs_topic(self, other: str) -> str:
        """Returns the topic that holds the offset syncs; *other* is the flow's other cluster."""


@dataclass(frozen=True, slots=True)
class PrefixPolicy:
    """``orders`` of cluster ``us-west`` becomes ``us-west.orders`` (DefaultReplicationPolicy).

    A local topic whose own name contains the separator is taken for a remote one, as in
    MirrorMaker 2. Choose a separator that topic names do not contain.

    Args:
        separator: Separates alias and name. A literal, not a regex. If it is empty, the first
            letter of a name reads as its source, because Java's split gives single letters.
        internal_separator: The separator in the names of checkpoints and offset-syncs topics.
    """

    separator: str = "."
    internal_separator: str = "."

    def remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        if not self.separator:
            return topic[0] if len(topic) > 1 else None
        source, *rest = topic.split(self.separator)
        # Java's split drops trailing empty parts: "orders." is a local topic, ".orders" is not.
        return source if any(rest) else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        while (upstream := self.upstream_topic(topic)) not in (None, topic):
            topic = upstream or ""
        return topic

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(f"{self.internal_separator}checkpoints{self._internal_suffix}")

    def is_internal_topic(self, topic: str) -> bool:
        return (
            topic.startswith(("__", "."))
            or (topic.startswith("mm2") and topic.endswith(self._internal_suffix))
            or self.is_checkpoints_topic(topic)
        )

    def heartbeats_topic(self) -> str:
        return HEARTBEATS

    def checkpoints_topic(self, source: str) -> str:
        return f"{source}{self.internal_separator}checkpoints{self._internal_suffix}"

    def offset_syncs_topic(self, other: str) -> str:
        return f"mm2-offset-syncs{self.internal_separator}{other}{self._internal_suffix}"

    @property
    def _internal_suffix(self) -> str:
        return f"{self.internal_separator}internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityPolicy(PrefixPolicy):
    """``orders`` stays ``orders`` (IdentityReplicationPolicy). It gives no protection from loops.

    A name that ends in ``heartbeats`` is prefixed nevertheless, even ``my-heartbeats``: this is
    MirrorMaker 2's rule, and its clients rely on it.

    Args:
        source: Alias of the flow's source, from which every topic is assumed to come.
    """

    source: str | None

    def remote_topic(self, source: str, topic: str) -> str:
        if topic.endswith(HEARTBEATS):
            return PrefixPolicy.remote_topic(self, source, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if topic.endswith(HEARTBEATS):
            return PrefixPolicy.topic_source(self, topic)
        return self.source

    def upstream_topic(self, topic: str) -> str | None:
        if topic.endswith(HEARTBEATS):
            return PrefixPolicy.upstream_topic(self, topic)
        return topic


def is_cycle(policy: ReplicationPolicy, topic: str, *, source: str, target: str) -> bool:
    """Returns whether *topic*, replicated from *source* to *target*, returns to where it came from.

    A name with the source's own alias is a cycle too, as in MirrorMaker 2 4.4: such a topic
    returned under inconsistent aliases and would gain prefixes without end (KAFKA-9914). Under
    `IdentityPolicy` every topic has that alias, and a policy of the user's may be like it, so only
    the target's alias counts.
    """
    has_prefix = isinstance(policy, PrefixPolicy) and not isinstance(policy, IdentityPolicy)
    visited = {source, target} if has_prefix else {target}
    while (alias := policy.topic_source(topic)) is not None:
        if alias in visited:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return False


# The user's own Java classes in place of MirrorMaker 2's: a policy and three filters.
#
# They are asked for their answers where something is planned, never for a record, and once for
# each name. How Java is asked, the process says by `ask_with`: the rules know no JVM.

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


CLEANUP_POLICY = "compact"


def find_faults(
    topic: str, partitions: int, cleanup_policy: str | None, servers: str
) -> Iterator[str]:
    """Yields what is wrong with an existing topic, and the command for it; nothing if it is fit.

    Args:
        topic: Its name.
        partitions: How many it has.
        cleanup_policy: Its ``cleanup.policy``; None if that is unknown.
        servers: The ``bootstrap.servers`` of its cluster.
    """
    if cleanup_policy not in (CLEANUP_POLICY, None):
        yield (
            f"topic {topic} has cleanup.policy={cleanup_policy}, so its cluster deletes records "
            f"that its readers need; correct it with: kafka-configs --bootstrap-server {servers} "
            f"--alter --entity-type topics --entity-name {topic} --add-config "
            f"cleanup.policy={CLEANUP_POLICY}"
        )
    if partitions != 1:
        yield (
            f"topic {topic} has {partitions} partitions, but only partition 0 is written and read; "
            "to have it created again with one, which loses its records, stop the mirror and run: "
            f"kafka-topics --bootstrap-server {servers} --delete --topic {topic}"
        )


def find_letter_faults(topic: str, cleanup_policy: str | None, servers: str) -> Iterator[str]:
    """Yields what is wrong with an existing topic of dead letters; arguments as of `find_faults`.

    A compacted topic takes no record without a key, and of several letters with one key it keeps
    the last.
    """
    if CLEANUP_POLICY in (cleanup_policy or ""):
        yield (
            f"topic {topic} has cleanup.policy={cleanup_policy}, so its cluster deletes dead "
            f"letters; correct it with: kafka-configs --bootstrap-server {servers} --alter "
            f"--entity-type topics --entity-name {topic} --add-config cleanup.policy=delete"
        )
