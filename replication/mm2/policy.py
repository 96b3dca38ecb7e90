"""Names topics on the target exactly as MirrorMaker 2 4.x does. Pure.

The rules work on names alone; whether a topic exists does not matter.
"""

# ruff: noqa: D102  # the protocol documents the methods for both policies

from dataclasses import dataclass
from typing import Protocol

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
