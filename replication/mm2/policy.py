"""How topics are named on the other side, exactly as MirrorMaker 2 4.x does. Pure.

Strings in, strings out: which topics exist is nobody's business here.
"""

# ruff: noqa: D102  # the protocol documents the methods once, for both policies

from dataclasses import dataclass
from typing import Protocol

HEARTBEATS = "heartbeats"


class ReplicationPolicy(Protocol):
    """Names a topic's copy on the target cluster, and reads such a name back."""

    def remote_topic(self, source: str, topic: str) -> str:
        """The name *topic* of cluster *source* gets on the target."""

    def topic_source(self, topic: str) -> str | None:
        """The alias *topic* was copied from, or None where the name tells of none."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name *topic* has on the cluster it was copied from, or None as above."""

    def original_topic(self, topic: str) -> str:
        """The name *topic* had where it was first written, all hops taken away."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether *topic* is ``heartbeats``, or a copy of it over any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether *topic* holds the group checkpoints of some source."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether *topic* belongs to the replication or to Kafka, and is never copied."""

    def heartbeats_topic(self) -> str:
        """The heartbeats topic's own name, the same on every cluster."""

    def checkpoints_topic(self, source: str) -> str:
        """On the target: where group checkpoints of *source* are kept."""

    def offset_syncs_topic(self, other: str) -> str:
        """Where offset syncs are kept; *other* is the flow's other cluster."""


@dataclass(frozen=True, slots=True)
class PrefixPolicy:
    """``orders`` of cluster ``us-west`` becomes ``us-west.orders`` (DefaultReplicationPolicy).

    A local topic whose own name holds the separator reads as remote (as it does in
    MirrorMaker 2): choose a separator that your topic names do not use.

    Args:
        separator: Between alias and name. A literal, never a regex; not empty.
        internal_separator: The same in the names of checkpoints and offset-syncs topics.
    """

    separator: str = "."
    internal_separator: str = "."

    def remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        source, *rest = topic.split(self.separator)
        # Java's split drops empty parts at the end: "orders." is a local topic, ".orders" is not.
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
    """``orders`` stays ``orders`` (IdentityReplicationPolicy). Nothing protects from loops.

    Any name that ends in ``heartbeats`` is prefixed all the same, ``my-heartbeats`` too: that is
    MirrorMaker 2's rule, and its clients count on it.

    Args:
        source: Alias of the flow's source; every topic is taken to come from there.
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
    """Whether copying *topic* from *source* to *target* would send it where it has been.

    A name that carries the source's own alias is refused too, as in MirrorMaker 2 4.4: such a
    topic came back under inconsistent aliases and would grow a prefix for ever (KAFKA-9914).
    Under `IdentityPolicy` every topic carries it, so there only the target's alias counts.
    """
    been = {target} if isinstance(policy, IdentityPolicy) else {source, target}
    while (alias := policy.topic_source(topic)) is not None:
        if alias in been:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return False
