"""MirrorMaker 2's record format of offset syncs, checkpoints and heartbeats. Pure.

The fields are Kafka's protocol types: integers are big-endian, a string is an int16 byte length and
UTF-8. Keys have no version; checkpoint and heartbeat values start with version 0. All records go to
partition 0 of their topic. Bytes after the last known field are ignored, as in MM2. A value must
never be null: MM2's readers fail on a null value.
"""

from dataclasses import dataclass
from typing import Any

from replication.foreign_json import LARGEST, read_json
from replication.model import TopicPartition

_VERSION = 0
_STRING_BYTES_MAX = 32_767  # the length is a signed int16


class WireError(ValueError):
    """A record does not have the format of its topic, or a value cannot be encoded."""


class NullError(WireError):
    """A key or value is null. MM2 never writes one; a reader skips it."""


class TruncatedError(WireError):
    """The bytes end before the last field."""


class VersionError(WireError):
    """The value's version is not 0: a later MM2 wrote it, perhaps with another meaning."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at *upstream* in a source partition is at *downstream* in the remote one."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.partition.topic, "topic") + _int(
            self.partition.partition, 4, "partition"
        )

    def value(self) -> bytes:
        return _int(self.upstream, 8, "upstreamOffset") + _int(self.downstream, 8, "offset")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "OffsetSync":
        """Returns the offset sync in a record.

        Raises:
            WireError: The record is not an offset sync.
        """
        keys, values = _Fields(key, "offset sync key"), _Fields(value, "offset sync value")
        partition = TopicPartition(keys.string("topic"), keys.int(4, "partition"))
        return cls(partition, values.int(8, "upstreamOffset"), values.int(8, "offset"))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on the source and its translation on the target.

    *partition* names the **remote** topic; *metadata* is what the group committed, "" for none.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str | None = ""

    def __post_init__(self) -> None:
        if self.metadata is None:  # as clients report a commit without metadata
            object.__setattr__(self, "metadata", "")

    def key(self) -> bytes:
        return (
            _string(self.group, "group")
            + _string(self.partition.topic, "topic")
            + _int(self.partition.partition, 4, "partition")
        )

    def value(self) -> bytes:
        return (
            _int(_VERSION, 2, "version")
            + _int(self.upstream, 8, "upstreamOffset")
            + _int(self.downstream, 8, "offset")
            + _string(self.metadata or "", "metadata")
        )

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """Returns the checkpoint in a record.

        Raises:
            WireError: The record is not a checkpoint.
        """
        keys, values = _Fields(key, "checkpoint key"), _Fields(value, "checkpoint value")
        group = keys.string("group")
        partition = TopicPartition(keys.string("topic"), keys.int(4, "partition"))
        values.version()
        upstream, downstream = values.int(8, "upstreamOffset"), values.int(8, "offset")
        return cls(group, partition, upstream, downstream, values.string("metadata"))


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow *source* -> *target* was running at *timestamp_ms* (since the epoch)."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source, "sourceClusterAlias") + _string(
            self.target, "targetClusterAlias"
        )

    def value(self) -> bytes:
        return _int(_VERSION, 2, "version") + _int(self.timestamp_ms, 8, "timestamp")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """Returns the heartbeat in a record.

        Raises:
            WireError: The record is not a heartbeat.
        """
        keys, values = _Fields(key, "heartbeat key"), _Fields(value, "heartbeat value")
        source, target = keys.string("sourceClusterAlias"), keys.string("targetClusterAlias")
        values.version()
        return cls(source, target, values.int(8, "timestamp"))


def _int(number: int, size: int, field: str) -> bytes:
    try:
        return number.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise WireError(f"{field} does not fit into {size} bytes, got {number}") from None


def _string(text: str, field: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"{field} is not valid text, got {text!r}: {error}") from None
    if len(encoded) > _STRING_BYTES_MAX:
        raise WireError(
            f"{field} may have at most {_STRING_BYTES_MAX} bytes in UTF-8, got {len(encoded)}, "
            f"starting with {text[:40]!r}"
        )
    return _int(len(encoded), 2, field) + encoded


class _Fields:
    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise NullError(f"{what} is null")
        self._data = bytes(data)
        self._at = 0
        self._what = what

    def _take(self, size: int, field: str) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise TruncatedError(
                f"{self._what} ends inside {field}: it has {len(self._data)} bytes, but needs at "
                f"least {self._at + size}"
            )
        self._at += size
        return taken

    def int(self, size: int, field: str) -> int:
        return int.from_bytes(self._take(size, field), "big", signed=True)

    def string(self, field: str) -> str:
        length = self.int(2, field)
        if length < 0:
            raise WireError(f"{self._what}: {field} has the length {length}")
        encoded = self._take(length, field)
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self._what}: {field} is not UTF-8: {error}") from None

    def version(self) -> None:
        version = self.int(2, "version")
        if version != _VERSION:
            raise VersionError(f"{self._what} has version {version}, only {_VERSION} is supported")


# Reads the positions that MirrorMaker 2's workers store, from records of ``mm2-offsets.*``.
#
# Kafka Connect writes JSON: the key ``["MirrorSourceConnector", {"cluster": "A", "partition": 0,
# "topic": "orders"}]``, the value ``{"offset": 41}``, the last copied offset. Other connectors of
# the worker write other keys into the same topic.


def stored_position(
    source: str, key: bytes | None, value: bytes | None
) -> tuple[TopicPartition, int | None] | None:
    """Returns a partition of *source* and the next offset to copy; None for another record.

    The offset is None where the position was reset.
    """
    found = _json(key)
    if not isinstance(found, list) or not found or not isinstance(found[-1], dict):
        return None
    topic, partition = found[-1].get("topic"), found[-1].get("partition")
    if found[-1].get("cluster") != source or not isinstance(topic, str):
        return None
    if type(partition) is not int or not 0 <= partition < 2**31:
        return None
    content = _json(value)
    offset = content.get("offset") if isinstance(content, dict) else None
    tp = TopicPartition(topic, partition)
    return tp, offset + 1 if type(offset) is int and 0 <= offset < LARGEST else None


def _json(text: bytes | None) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(text or b"null")
    except ValueError:
        return None
