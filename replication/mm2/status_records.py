"""Kafka Connect's records of connectors, tasks and topics, as its status topic holds them. Pure.

The key says of what, the value is a JSON object without a schema, and no value ends what the key
names. What Connect does not know lies in one field of its own, `OURS`: Connect's reader skips
unknown fields, but warns of unknown keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from replication.foreign_json import read_json

ConnectState = Literal["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED"]
Connector = Literal[
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
    "MirrorMetadataConnector",
]
"""MirrorMaker 2's connectors, and one that it has not: its source connector keeps settings and ACLs
in step, too, and here that may be a job of its own."""

CONNECT_STATES: Final[Mapping[str, ConnectState]] = {
    "starting": "UNASSIGNED",
    "waiting": "UNASSIGNED",
    "standby": "UNASSIGNED",
    "running": "RUNNING",
    "draining": "RUNNING",
    "stopping": "RUNNING",
    "paused": "PAUSED",
    "drained": "STOPPED",
    "stopped": "STOPPED",
    "failed": "FAILED",
}
"""The state of a flow -> what Connect calls it."""

OURS: Final = "replication"
_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_OF: Final = ":connector-"

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_INT: Final = 0xFFFFFFFF


class StatusRecordError(ValueError):
    """A record of the status topic does not have Connect's form."""


@dataclass(frozen=True, slots=True)
class StatusKey:
    """What a record is of: a connector, one of its tasks, or an upstream topic that it reads."""

    connector: str
    task: int | None = None
    topic: str | None = None

    def encode(self) -> bytes:
        if self.topic is not None:
            return f"{_TOPIC}{self.topic}{_OF}{self.connector}".encode()
        if self.task is not None:
            return f"{_TASK}{self.connector}-{self.task}".encode()
        return f"{_CONNECTOR}{self.connector}".encode()

    @classmethod
    def decode(cls, key: bytes | None) -> "StatusKey":
        """Returns what a record with this *key* is of.

        Raises:
            StatusRecordError: It is no key of Connect's.
        """
        text = (key or b"").decode(errors="replace")
        if text.startswith(_CONNECTOR):
            return cls(text.removeprefix(_CONNECTOR))
        if text.startswith(_TASK):
            connector, _, task = text.removeprefix(_TASK).rpartition("-")
            if connector and task.isdecimal() and len(task) < 10:  # noqa: PLR2004 - fits an int
                return cls(connector, task=int(task))
        if text.startswith(_TOPIC):
            topic, _, connector = text.removeprefix(_TOPIC).rpartition(_OF)
            if topic:
                return cls(connector, topic=topic)
        raise StatusRecordError(f"not a key of Connect's status topic: {text[:80]!r}")


def worker_value(
    state: str, worker: str, generation: int, trace: str, ours: Mapping[str, object]
) -> bytes:
    """Returns the value of a connector or a task.

    Args:
        state: The flow's own; Connect's follows from it.
        worker: Who runs it, in MirrorMaker 2's form ``host/A->B/UUID``.
        generation: The number of its newest generation.
        trace: Why it has failed; "" if it has not.
        ours: What Connect does not know.
    """
    value = {
        "state": CONNECT_STATES.get(state, "UNASSIGNED"),
        "trace": trace or None,
        "worker_id": worker,
        "generation": generation,
        OURS: ours,
    }
    return _encode(value)


def topic_value(
    topic: str, connector: str, discovered_ms: int, ours: Mapping[str, object]
) -> bytes:
    """Returns the value of an upstream *topic*.

    Args:
        topic: Its name.
        connector: Which reads it.
        discovered_ms: When the connector began to read it.
        ours: What Connect does not know.
    """
    known = {"name": topic, "connector": connector, "task": 0, "discoverTimestamp": discovered_ms}
    return _encode({"topic": {**known, OURS: ours}})


def own_part(value: bytes | None) -> Mapping[str, Any] | None:
    """Returns what Connect does not know in a *value*; None if a worker of Connect's wrote it.

    Raises:
        StatusRecordError: The value is not a JSON object, or too large a one.
    """
    if value is None:
        return None
    try:
        found = read_json(value)
    except ValueError as error:
        raise StatusRecordError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise StatusRecordError(f"not a JSON object, but {type(found).__name__}")
    inner = found.get("topic", found)
    ours = inner.get(OURS) if isinstance(inner, dict) else None
    return ours if isinstance(ours, dict) else None


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition to which Java's clients send a *key* in a topic of *partitions*.

    Connect does, so its own word of the key is in the same partition, and compaction removes it.
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _encode(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _murmur2(data: bytes) -> int:
    found = (_SEED ^ len(data)) & _INT
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _INT
        word = (word ^ (word >> 24)) * _FACTOR & _INT
        found = (found * _FACTOR & _INT) ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _INT
    found = (found ^ (found >> 13)) * _FACTOR & _INT
    return found ^ (found >> 15)
