"""A dead letter: a record that cannot be copied, kept with the reason and its place. Pure.

In a topic a letter is a record with the key, the value and the headers of the original. Behind
these come the headers that Kafka Connect gives to the records of its dead letter queue, and one of
ours, `IDENTITY`, by which a letter is found again: nothing is written twice.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from replication.foreign_json import read_json, text, whole
from replication.model import Flow, Headers, TopicPartition

IDENTITY: Final = "replication-dead-letter"
"""The header of a letter that says what it is of, and that of a record that was copied again."""

CONNECT: Final = "__connect.errors."
"""How the headers of Kafka Connect begin."""

MOST_IDENTITY_BYTES: Final = 10_000
"""An identity has names of two clusters and of a topic, and a few numbers."""

MOST_PARTITIONS: Final = 2**31 - 1

Stage = Literal["KAFKA_PRODUCE", "KAFKA_CONSUME", "TRANSFORMATION"]
"""Where a record failed, by Connect's names."""

SPAN: Final = 10
"""Of so many offsets for each letter that is allowed: more than one record in ten is too many."""


class DeadLetterId(NamedTuple):
    """What a letter is of: a record of a topic with this id. Topics that are made anew differ."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    @property
    def at(self) -> TopicPartition:
        """The upstream partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One letter.

    Args:
        flow: Whose record it is.
        id: Which.
        stage: Where it failed.
        reason: Why, with the class of Kafka's error in front if there is one.
        timestamp_ms: The record's; -1 if it has none.
        key: Its key.
        value: Its value.
        headers: Its headers, in order.
        is_read: Whether key, value, headers and timestamp are the record's; nobody could read it
            otherwise.
    """

    flow: Flow
    id: DeadLetterId
    stage: Stage
    reason: str
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    is_read: bool = True

    @property
    def error_class(self) -> str:
        """The class of Kafka's error in the reason; empty if it names none."""
        words = self.reason.partition(":")[0]
        return words if words.endswith(("Exception", "Error")) and " " not in words else ""

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        parts = [self.key, self.value, *(part for _, part in self.headers)]
        return sum(map(len, filter(None, parts))) + sum(len(name) for name, _ in self.headers)

    def headers_of_letter(self) -> Headers:
        """Returns the headers of the letter in a topic: the record's own, then what says why."""
        identity = {
            "flow": str(self.flow), **self.id._asdict(), "stage": self.stage,
            "timestamp_ms": self.timestamp_ms, "headers": len(self.headers), "read": self.is_read,
        }  # fmt: skip
        said = {
            "topic": self.id.topic,
            "partition": str(self.id.partition),
            "offset": str(self.id.offset),
            "connector.name": str(self.flow),
            "task.id": "0",
            "stage": self.stage,
            "class.name": "replication",
            "exception.class.name": self.error_class,
            "exception.message": self.reason,
        }
        connect = ((f"{CONNECT}{name}", text.encode()) for name, text in said.items())
        return (*self.headers, *connect, (IDENTITY, json.dumps(identity).encode()))

    def headers_of_copy(self) -> Headers:
        """Returns the headers of the record that is copied again: its own, and what it is."""
        identity = {"flow": str(self.flow), **self.id._asdict()}
        return (*self.headers, (IDENTITY, json.dumps(identity).encode()))


def identity_of(flow: Flow, headers: Headers) -> DeadLetterId | None:
    """Returns what *headers* of a letter, or of a record that was copied again, are of.

    Returns:
        None for any other record, and for one of another flow.
    """
    found = _identity(flow, headers)
    return None if found is None else _id(found)


def letter_of(
    flow: Flow, key: bytes | None, value: bytes | None, headers: Headers
) -> DeadLetter | None:
    """Returns the letter of *flow* that a record of a topic of letters is; None if it is none."""
    if (found := _identity(flow, headers)) is None:
        return None
    try:
        count = whole(found["headers"], most=len(headers))
        time_ms, stage = whole(found["timestamp_ms"], least=-1), found["stage"]
    except (KeyError, TypeError, ValueError):
        return None
    if stage not in get_args(Stage) or type(found.get("read")) is not bool:
        return None
    said = {name: (value or b"").decode(errors="replace") for name, value in headers[count:]}
    return DeadLetter(
        flow,
        _id(found),
        stage,
        said.get(f"{CONNECT}exception.message", ""),
        time_ms,
        key,
        value,
        tuple(headers[:count]),
        is_read=found["read"],
    )


def _identity(flow: Flow, headers: Headers) -> Mapping[str, Any] | None:
    if not headers or headers[-1][0] != IDENTITY:
        return None
    try:  # anybody may give his record such a header
        found = read_json(headers[-1][1] or b"", most=MOST_IDENTITY_BYTES)
        if not isinstance(found, dict) or found.get("flow") != str(flow):
            return None
        _id(found)
    except (KeyError, TypeError, ValueError):
        return None
    return found


def _id(found: Mapping[str, Any]) -> DeadLetterId:
    partition, offset = whole(found["partition"], most=MOST_PARTITIONS), whole(found["offset"])
    return DeadLetterId(text(found["topic"]), text(found["topic_id"]), partition, offset)


class DeadLetterLimit:
    """Counts the letters of each partition: one whose records all fail does not become letters.

    Args:
        most: With so many in a row, or among the last `SPAN` times as many offsets, the next record
            gets no letter.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: dict[TopicPartition, tuple[int, int]] = {}
        self._recent: dict[TopicPartition, deque[int]] = {}

    def is_reached(self, tp: TopicPartition, upstream: int) -> bool:
        """Returns whether the record behind *upstream*, where *tp* resumes, gets no letter."""
        end, count = self._last.get(tp, (-1, 0))
        near = [at for at in self._recent.get(tp, ()) if at >= upstream - SPAN * self._most]
        return len(near) >= self._most or (upstream == end and count >= self._most)

    def add(self, tp: TopicPartition, upstream: int, end: int) -> None:
        """Counts a letter of the record behind *upstream*; *tp* resumes at *end* now."""
        last, count = self._last.get(tp, (-1, 0))
        self._last[tp] = (end, count + 1 if upstream == last else 1)
        self._recent.setdefault(tp, deque(maxlen=self._most)).append(end - 1)
