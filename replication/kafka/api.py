"""What this folder wants of a Kafka client, in values of our own. Two kinds of clients give it.

`java_clients` asks Java's clients in a JVM, `confluent` asks confluent-kafka's; `clients` opens
what a connection needs. No other module knows a type of theirs. What topics look like are values of
`replication.model`. A call takes its timeout in seconds, and returns within it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeVar

from replication.model import (
    Headers,
    Isolation,
    NewTopic,
    Origin,
    Topic,
    TopicPartition,
    TopicSetting,
)

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3
"""Times that ask for an offset, besides those in ms: the log's end, its start, and the record with
the newest timestamp. They are the numbers of Kafka's protocol."""

READER: Final = "replication-reader"
"""client.id of a consumer whose file names none, and the group that librdkafka asks for."""

ORIGINS: Final[Mapping[str, Origin]] = MappingProxyType(
    {
        "DYNAMIC_TOPIC_CONFIG": "topic",
        "DYNAMIC_BROKER_CONFIG": "cluster",
        "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
        "STATIC_BROKER_CONFIG": "server.properties",
        "DEFAULT_CONFIG": "default",
    }
)
"""What sets a setting, by Kafka's names; those of newer versions are unknown."""

SILENT_LEADER: Final = "_SILENT_LEADER"
"""Our own code: the leader of that partition has not answered, though the cluster has."""


@dataclass(frozen=True, slots=True)
class ClientFailure:
    """Why a call, or what it asked about one key, failed.

    Args:
        code: Kafka's name of the error, ``INVALID_CONFIG``. A name that begins with an underscore
            is the client's own, for what no broker has said: ``_TRANSPORT``.
        text: The same in the words of the broker or of the client.
    """

    code: str
    text: str

    @property
    def is_own(self) -> bool:
        """Whether no broker has said it, but the client."""
        return self.code.startswith("_")

    @property
    def is_for_a_setting(self) -> bool:
        """Whether the cluster might accept the request with other settings."""
        return self.code in {"INVALID_CONFIG", "POLICY_VIOLATION"}


class ClientError(Exception):
    """A call failed as a whole, or no client can be created with its properties."""

    def __init__(self, failure: ClientFailure) -> None:
        self.failure = failure
        super().__init__(f"{failure.code}: {failure.text}")


@dataclass(frozen=True, slots=True)
class Listing:
    """A cluster's id, the addresses of its brokers by their ids, and the names of its topics."""

    cluster_id: str
    brokers: Mapping[int, str]
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class LogOffset:
    """A place in a log, and the timestamp of its record; both are -1 where there is no record.

    Log end and start have no timestamp. ``epoch`` is that of the record's leader, at the log end
    that of today's leader; None if the broker does not say it.
    """

    offset: int
    timestamp_ms: int = -1
    epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record as it is in the log. ``timestamp_ms`` is -1 for a record without a timestamp.

    ``is_append_time`` says that the cluster has set it, and not the producer. ``epoch`` is that of
    the leader which has appended the record; None if nobody says it.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_append_time: bool = False
    epoch: int | None = field(default=None, compare=False)


ResultT = TypeVar("ResultT")
Answers = dict[str, ResultT | ClientFailure]
Settings = dict[str, TopicSetting]
Kind = Literal["TOPIC", "BROKER"]


class Admin(Protocol):
    """An admin client. Threads may share it.

    An answer has, for each key, what was asked, or why it failed. Calls raise `ClientError` where
    they fail as a whole.
    """

    def close(self) -> None:
        """Closes the connections, and ends what waits for an answer."""

    def listing(self, timeout_s: float) -> Listing:
        """Lists brokers and topics. Any broker knows them."""

    def brokers(self, timeout_s: float) -> Mapping[int, str]:
        """Lists the brokers only: the smallest question, which any broker answers."""

    def topics(self, names: Collection[str], timeout_s: float) -> Answers[Topic]:
        """Describes topics."""

    def rights(self, topics: Collection[str], timeout_s: float) -> Answers[frozenset[str] | None]:
        """Returns what this user may do with topics: ``READ``; None if the broker is too old."""

    def members(self, groups: Collection[str], timeout_s: float) -> Answers[frozenset[str]]:
        """Returns the ids of the members of consumer groups: the static ones of those with one."""

    def offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, LogOffset | ClientFailure]:
        """Returns the first offset of a time in ms or later, or what `LATEST` and others mean."""

    def ends(
        self, partitions: Collection[TopicPartition], isolation: Isolation, timeout_s: float
    ) -> dict[TopicPartition, int | ClientFailure]:
        """Returns where logs end, for looks every few seconds: the cheapest question.

        A partition that does not exist, or whose leader is silent, may fail at the timeout only.
        """

    def create(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> Answers[None]:
        """Creates topics, or only asks whether the cluster would."""

    def delete(self, topics: Collection[str], timeout_s: float) -> Answers[None]:
        """Deletes topics."""

    def grow(self, counts: Mapping[str, int], timeout_s: float) -> Answers[None]:
        """Adds partitions to topics, up to *counts*."""

    def settings(self, kind: Kind, names: Collection[str], timeout_s: float) -> Answers[Settings]:
        """Reads all settings of topics, or of brokers by their ids."""

    def alter(
        self, changes: Mapping[str, Mapping[str, str | None]], timeout_s: float
    ) -> Answers[None]:
        """Changes settings of topics; None removes one. Those of a topic are changed together."""


class Records(Protocol):
    """A consumer that is in no group and commits nothing, for one thread.

    Every method raises `ClientError`.
    """

    def close(self) -> None:
        """Closes the connections."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from their offsets, instead of all others."""

    def drop(self, tp: TopicPartition) -> None:
        """Reads *tp* no longer."""

    def bounds(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Returns the first offset, and the one after the last that may be read."""

    def poll(self, timeout_s: float) -> tuple[TopicPartition, KafkaRecord | None] | None:
        """Waits for the next record; one that is None is the end of its partition."""

    def cause(self, failure: ClientFailure) -> ClientFailure:
        """Returns what the client has met, if it knows more than *failure*: nobody answered."""


Done = Callable[[ClientFailure | None, int], None]
"""Is told why a record was not written, and the time in ms at which the broker has stamped it: -1
where it has not, because the topic keeps the time of who sends."""


class RecordSender(Protocol):
    """An idempotent producer for few records, for one thread."""

    def connect(self, topic: str) -> None:
        """Waits for a moment until the client has a connection, if it needs one to be quick."""

    def send(self, to: TopicPartition, key: bytes, value: bytes | None, done: Done) -> None:
        """Sends a record; some later call of this sender calls *done* when its fate is known."""

    def flush(self, timeout_s: float) -> None:
        """Waits until all records are acknowledged or have failed."""


# A call to a cluster as its errors name it: what was tried, and the right that it needs.


@dataclass(frozen=True, slots=True)
class Call:
    """What was tried.

    Args:
        text: For an operator: ``creating topic A.orders``.
        operation: What the user must be allowed to do with the resource, as ``kafka-acls`` names
            it; empty where no line of that tool is known.
        kind: Of the resource.
        name: Of the topic or the group. The first of several stands for all.
    """

    text: str
    operation: str = ""
    kind: Literal["topic", "group"] = "topic"
    name: str = ""

    def __str__(self) -> str:
        return self.text

    def of(self, *keys: object) -> "Call":
        """Returns this call about topics, partitions or groups."""
        if not keys:
            return self
        names = join_names([str(key) for key in keys])
        return replace(self, text=f"{self.text} {names}", name=topic_of(min(keys, key=str)))


CREATE_TOPIC: Final = Call("creating topic", "Create")
DELETE_TOPIC: Final = Call("deleting topic", "Delete")
GROW_TOPIC: Final = Call("adding partitions to topic", "Alter")
DESCRIBE_TOPIC: Final = Call("describing topic", "Describe")
READ_SETTINGS: Final = Call("reading settings of topic", "DescribeConfigs")
LIST_OFFSETS: Final = Call("listing offsets of", "Describe")
READ_TOPIC: Final = Call("reading topic", "Read")
READ_PARTITIONS: Final = Call("reading", "Read")
DESCRIBE_PRODUCERS: Final = Call("describing the producers of", "Read")
WRITE_TOPIC: Final = Call("writing to topic", "Write")
DESCRIBE_GROUP: Final = Call("describing group", "Describe", "group")
READ_COMMITTED: Final = Call("reading the committed offsets of group", "Describe", "group")
COMMIT: Final = Call("committing offsets of group", "Read", "group")
JOIN_GROUP: Final = Call("joining the group", "Read", "group")


def topic_of(key: object) -> str:
    """Returns the topic that a call's *key* is about; a group's name as it is."""
    return key.topic if isinstance(key, TopicPartition) else str(key)


def join_names(names: Collection[str], most: int = 5, separator: str = ", ") -> str:
    """Returns the first few of *names* in one string, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(sorted(names)[:most]) + more
