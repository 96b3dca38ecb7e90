"""MirrorMaker 2's bytes for offset syncs, checkpoints and heartbeats. Pure, no Kafka client.

Kafka's protocol types: integers are big-endian, a string is an int16 byte length and UTF-8. Keys
carry no version; checkpoint and heartbeat values lead with version 0. All three go to partition 0
of their topic. Bytes after the last known field are ignored, as MM2 does. Never write a null value
there: MM2's readers die of it.
"""

from dataclasses import dataclass

from replication.model import TopicPartition

_VERSION = 0
_STRING_BYTES_MAX = 32_767  # the length is a signed int16


class WireError(ValueError):
    """A record that is not what its topic should hold, or a value that has no bytes."""


class NullError(WireError):
    """A key or value is null. MM2 never writes that; a reader skips it."""


class TruncatedError(WireError):
    """The bytes end before the last field does."""


class VersionError(WireError):
    """The value's version is not 0: a later MM2 wrote it, and it may mean something else."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at *upstream* of a source partition is the one at *downstream* of its copy."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """Bytes of the record's key."""
        return _string(self.partition.topic, "topic") + _int(
            self.partition.partition, 4, "partition"
        )

    def value(self) -> bytes:
        """Bytes of the record's value."""
        return _int(self.upstream, 8, "upstreamOffset") + _int(self.downstream, 8, "offset")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "OffsetSync":
        """The offset sync in a record, or a WireError."""
        keys, values = _Fields(key, "offset sync key"), _Fields(value, "offset sync value")
        partition = TopicPartition(keys.string("topic"), keys.int(4, "partition"))
        return cls(partition, values.int(8, "upstreamOffset"), values.int(8, "offset"))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on the source and what it is on the target.

    *partition* names the **remote** topic; *metadata* is the group's own, "" for none.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str | None = ""

    def __post_init__(self) -> None:
        if self.metadata is None:  # what a client that commits without metadata reports
            object.__setattr__(self, "metadata", "")

    def key(self) -> bytes:
        """Bytes of the record's key."""
        return (
            _string(self.group, "group")
            + _string(self.partition.topic, "topic")
            + _int(self.partition.partition, 4, "partition")
        )

    def value(self) -> bytes:
        """Bytes of the record's value."""
        return (
            _int(_VERSION, 2, "version")
            + _int(self.upstream, 8, "upstreamOffset")
            + _int(self.downstream, 8, "offset")
            + _string(self.metadata or "", "metadata")
        )

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """The checkpoint in a record, or a WireError."""
        keys, values = _Fields(key, "checkpoint key"), _Fields(value, "checkpoint value")
        group = keys.string("group")
        partition = TopicPartition(keys.string("topic"), keys.int(4, "partition"))
        values.version()
        upstream, downstream = values.int(8, "upstreamOffset"), values.int(8, "offset")
        return cls(group, partition, upstream, downstream, values.string("metadata"))


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """At *timestamp_ms* (epoch) the flow *source* -> *target* was alive."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Bytes of the record's key."""
        return _string(self.source, "sourceClusterAlias") + _string(
            self.target, "targetClusterAlias"
        )

    def value(self) -> bytes:
        """Bytes of the record's value."""
        return _int(_VERSION, 2, "version") + _int(self.timestamp_ms, 8, "timestamp")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """The heartbeat in a record, or a WireError."""
        keys, values = _Fields(key, "heartbeat key"), _Fields(value, "heartbeat value")
        source, target = keys.string("sourceClusterAlias"), keys.string("targetClusterAlias")
        values.version()
        return cls(source, target, values.int(8, "timestamp"))


def _int(number: int, size: int, field: str) -> bytes:
    try:
        return number.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise WireError(f"{field} does not fit {size} bytes, got {number}") from None


def _string(text: str, field: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"{field} is not valid text, got {text!r}: {error}") from None
    if len(encoded) > _STRING_BYTES_MAX:
        raise WireError(
            f"{field} may hold {_STRING_BYTES_MAX} bytes as UTF-8, got {len(encoded)}, "
            f"beginning {text[:40]!r}"
        )
    return _int(len(encoded), 2, field) + encoded


class _Fields:
    """Reads a record's fields one after another."""

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
                f"{self._what} ends inside {field}: it has {len(self._data)} bytes, "
                f"at least {self._at + size} are needed"
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
            raise VersionError(f"{self._what} has version {version}, only {_VERSION} is known")
