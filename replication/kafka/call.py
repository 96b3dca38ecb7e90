"""A call to a cluster as its errors name it: what was tried, and the right that it needs. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

from replication.model import TopicPartition


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
