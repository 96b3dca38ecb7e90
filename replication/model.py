"""Shared value types. Pure: no I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypedDict

Mode = Literal["auto", "realtime", "microbatch", "drain"]
Source = Literal["auto", "shared", "spark"]
Headers = tuple[tuple[str, bytes | None], ...]
"""Those of a record, in order."""

Timestamps = Literal["preserve", "broker"]
Compression = Literal["producer", "source"]
LetterKind = Literal["none", "topic", "table"]
Reset = Literal["earliest", "latest"]
OnRewind = Literal["keep", "follow"]
GuardCause = Literal[
    "records-expired",
    "source-truncated",
    "source-recreated",
    "target-truncated",
    "unmatched",
    "foreign-records",
    "copies-expired",
]
"""Why a partition cannot resume without losing or repeating records."""

LossCause = Literal[GuardCause, "moved"]
"""Why offsets are left out or copied again: a cause that was decided, or an operator's move."""

GuardPolicy = Literal["fail", "stop", "skip", "restart"]
"""What happens then: the topic is set aside, the flow ends, or the partition goes on."""

PROVENANCE: Final = "replication-provenance"
"""The header that names a cluster through which a record has passed; one for each."""

Location = Literal["source", "target"]
"""One of the two clusters of a flow, as in MirrorMaker 2's ``offset-syncs.topic.location``."""

Job = Literal["mirror", "replicate", "checkpoints", "heartbeats", "metadata"]
Part = Literal["records", "checkpoints", "heartbeats", "metadata"]
PARTS: Mapping[Job, frozenset[Part]] = MappingProxyType(
    {
        "mirror": frozenset({"records", "checkpoints", "heartbeats", "metadata"}),
        "replicate": frozenset({"records"}),
        "checkpoints": frozenset({"checkpoints"}),
        "heartbeats": frozenset({"heartbeats"}),
        "metadata": frozenset({"metadata"}),
    }
)
"""What each job runs; group sync belongs to the checkpoints."""

RECORDS = frozenset(job for job, parts in PARTS.items() if "records" in parts)
"""The jobs that replicate records."""

EventKind = Literal[
    "restarted",
    "realigned",
    "adopted",
    "refused",
    "group-active",
    "group-gone",
    "group-rejected",
    "group-accepted",
    "config-overwritten",
    "config-rejected",
    "acl-restored",
    "acl-rejected",
    "source-topic-deleted",
    "remote-topic-deleted",
    "deletion-rejected",
    "unconfirmed",
    "set-aside",
    "rejoined",
    "unreachable",
    "reachable",
    "leaderless",
    "led",
    "waiting",
    "resumed",
    "started-over",
    "stalled",
    "jumped",
    "move-unused",
    "transform-changed",
    "no-topics",
    "table-damaged",
    "transaction-open",
    "transaction-ended",
    "requested",
    "limited",
    "limit-ended",
    "schema-conflict",
    "schema-unregistered",
    "schema-waits",
    "schemas-late",
    "dead-letter",
    "dead-letter-copied",
    "dead-letter-not-copied",
    "changed",
    "change-unreadable",
    "paused-at-risk",
]
"""The kinds of rows in the table ``events``; the log uses the same names with underscores."""

Reaction = Literal[
    "retry",
    "at least once",
    "match",
    "fail",
    "skip",
    "keep",
    "overwrite",
    "batch",
    "restart",
    "delete",
    "accept",
    "stop",
]
"""How the flow reacts to an event."""

Isolation = Literal["read_uncommitted", "read_committed"]

Unknown = Literal["fail", "drop", "keep"]
"""What becomes of a record for which a filter is NULL, so that nobody knows whether it passes."""


def runs(job: Job, part: Part) -> bool:
    """Returns whether *job* runs *part* of its flows."""
    return part in PARTS[job]


def is_local_mode(master: str | None) -> bool:
    """Returns whether *master* runs tasks in the driver's process: ``local``, ``local[4]``.

    ``local-cluster[2,1,1024]`` has executors in processes of their own, which may outlive it.
    """
    return master is not None and (master == "local" or master.startswith("local["))


def local_slots(master: str) -> int | None:
    """Returns how many task slots *master* says: 4 of ``local[4]``; None if it says no number."""
    found = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    return int(found[1]) if found else None


class TopicPartition(NamedTuple):
    """A partition of a topic, with Kafka's name for the pair. Sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


_AMBIGUOUS: Final = re.compile(r"(?=-to-)|-(?:checkpoints|heartbeats|metadata)$")
"""In the name of a flow's files: the place between its aliases, and the end of a job's own name."""


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """One direction of replication between two aliases. ``A->B`` and ``B->A`` are two flows."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def slug(self) -> str:
        """The name in files, query names and client ids, which cannot contain ``>``: ``A-to-B``.

        It is no other flow's: where the aliases could be read in another way, as those of
        ``A-to-B->C``, a digest follows a character that no alias has.
        """
        plain = self.plain_slug
        if len(_AMBIGUOUS.findall(plain)) == 1:
            return plain
        return f"{plain}+{sha256(str(self).encode()).hexdigest()[:8]}"

    @property
    def plain_slug(self) -> str:
        """What versions before this one took as the `slug` of every flow."""
        return f"{self.source}-to-{self.target}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a cluster describes it. ``topic_id`` changes when a topic is recreated.

    ``leaders`` are the brokers that lead the partitions, in their order; None where none leads now:
    ``leaderless`` partitions can be neither read nor written. ``in_sync`` has for each partition
    how many of its replicas have all of it, and how many it should have.
    """

    name: str
    topic_id: str
    partitions: int
    leaderless: frozenset[int] = field(default=frozenset(), compare=False)
    leaders: tuple[int | None, ...] = field(default=(), compare=False)
    in_sync: tuple[tuple[int, int], ...] = field(default=(), compare=False)


class EventDetails(TypedDict, total=False):
    """Columns of a row of ``events`` that only some kinds have."""

    group: str
    topic: str
    partition: int
    offset_from: int
    offset_until: int
    cluster: str


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An incident that an operator should know about.

    Args:
        kind: Of its row.
        text: The whole story.
        reaction: How the flow reacts to it.
        details: Further columns of its row, those of `EventDetails`.
        cause: Why offsets are lost or repeated, those of *details*; None if none are.
    """

    kind: EventKind
    text: str
    reaction: Reaction
    details: Mapping[str, str | int] = field(default_factory=dict)
    cause: LossCause | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What a flow changes of the records of some topics; empty texts change nothing.

    Each expression is one of Spark SQL over the columns key, value, headers, topic, partition,
    offset and timestamp of the record as the transform before left it.

    Args:
        name: In the file, for messages.
        topics: Names or regexes of topics on the source.
        filter: Whether a record is copied, a boolean.
        key: The copy's key, as bytes.
        value: Its value, as bytes.
        headers: Its headers, as array<struct<key:string,value:binary>>.
        headers_remove: Names of headers that are left out, of those of ``headers``.
        headers_add: Name and value, as bytes, of headers that follow them then.
        unknown: What becomes of a record whose ``filter`` is NULL.
        nullable: Whether a key, a value or headers that are not NULL may become NULL.
        injective: Whether different keys stay different, as a compacted topic needs it.
        hidden: Whether an expression came from a reference, so that no message may quote it.
    """

    name: str
    topics: tuple[str, ...]
    filter: str = ""
    key: str = ""
    value: str = ""
    headers: str = ""
    headers_remove: tuple[str, ...] = ()
    headers_add: tuple[tuple[str, str], ...] = ()
    unknown: Unknown = "fail"
    nullable: bool = False
    injective: bool = False
    hidden: bool = field(default=False, compare=False)

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions that there are, by the end of their key in the file."""
        parts = {
            "filter": self.filter,
            "key": self.key,
            "value": self.value,
            "headers": self.headers,
            **{f"headers.add.{name}": text for name, text in self.headers_add},
        }
        return {part: text for part, text in parts.items() if text}


Chain = tuple[Transform, ...]
"""The transforms of one topic, in the order in which they are applied."""

LEASE_GROUP_PREFIX: Final = "__replication-lease."
"""Of the consumer groups that decide which process holds a lease."""

AclPattern = Literal["LITERAL", "PREFIXED"]
"""Whether an ACL names one topic, or is for all topics with a prefix."""


@dataclass(frozen=True, slots=True, order=True)
class TopicAcl:
    """An access rule for topics. The topic ``*`` with the pattern LITERAL is every topic.

    ``operation`` and ``permission`` have Kafka's names: ``READ``, ``ALL``; ``ALLOW``, ``DENY``.
    """

    topic: str
    pattern: AclPattern
    principal: str
    host: str
    operation: str
    permission: str

    def concerns(self, topic: str, operation: str) -> bool:
        """Returns whether it is about *operation* on *topic*."""
        is_prefix = self.pattern == "PREFIXED"
        is_named = topic.startswith(self.topic) if is_prefix else self.topic in (topic, "*")
        return is_named and self.operation in (operation, "ALL")

    def __str__(self) -> str:
        what = f"{self.topic}*" if self.pattern == "PREFIXED" else self.topic
        return f"{self.permission} {self.operation} {what} to {self.principal} from {self.host}"


@dataclass(frozen=True, slots=True)
class Position:
    """A pair of equal positions: the next offset to read, and where its record is written."""

    upstream: int
    downstream: int

    def __str__(self) -> str:
        return f"source offset {self.upstream} at target offset {self.downstream}"


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's commit for one partition: the next offset to read, and the commit's metadata."""

    offset: int
    metadata: str = ""
