"""The values everything else speaks in. Pure: no I/O, no behaviour beyond their own reading."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Mode = Literal["auto", "realtime", "microbatch", "drain"]
Timestamps = Literal["preserve", "broker"]
Reset = Literal["earliest", "latest"]
OnRewind = Literal["keep", "follow"]
Location = Literal["source", "target"]
"""One of the two clusters of a flow, as in MirrorMaker 2's ``offset-syncs.topic.location``."""

Job = Literal["mirror", "replicate", "checkpoints", "heartbeats"]
RECORDS: frozenset[Job] = frozenset({"mirror", "replicate"})
"""The jobs that carry records."""

EventKind = Literal["restarted", "realigned", "adopted", "refused", "group-active", "group-gone"]
"""What a row of the table ``events`` reports; the log names the event alike, with underscores."""

EventPolicy = Literal["retry", "at least once", "match", "fail", "skip", "keep"]
"""What the flow does about an event."""

Isolation = Literal["read_uncommitted", "read_committed"]


class TopicPartition(NamedTuple):
    """A partition of a topic, by Kafka's own name for the pair. Sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """One direction of replication, by cluster aliases. ``A->B`` and ``B->A`` are two flows."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def slug(self) -> str:
        """A name for files, query names and client ids, where ``>`` is unwelcome: ``A-to-B``."""
        return f"{self.source}-to-{self.target}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a cluster describes it. ``topic_id`` changes when a topic is recreated."""

    name: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. ``replication_factor`` -1 is the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


Origin = Literal["topic", "cluster", "server.properties", "default", "unknown"]
"""What sets a topic setting: the topic, a dynamic broker default, a broker's file, or Kafka."""


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A topic's setting: the value in effect and what sets it."""

    value: str | None
    origin: Origin
    is_read_only: bool = False
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """A pair of equal positions: the next offset to read and the offset it will be written at."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What a consumer group has committed of a partition: the next offset to read, and a note."""

    offset: int
    metadata: str = ""
