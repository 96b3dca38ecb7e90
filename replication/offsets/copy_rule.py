"""What the copy of a record looks like, and which records are copied at all. Pure.

One rule for the query, which applies its Spark twin (`replication.spark.copies`), and for whoever
compares records of both sides: an original is compared by what its copy would be. So whatever is to
change a record, or to leave records out, is a field of `CopyRule`, in both places and nowhere else.
`tests/spark/test_copies.py` compares the two. Only Spark evaluates the expressions of transforms,
so records of topics that have some are read by `replication.positions.originals`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from typing import Protocol

from replication.model import PROVENANCE, Chain, Headers, Timestamps
from replication.offsets.fingerprint import Fingerprint
from replication.schemas.known import KnownIds


class LogRecord(Protocol):
    """A record as it is in the log of a partition."""

    @property
    def offset(self) -> int:
        """Its place."""

    @property
    def timestamp_ms(self) -> int:
        """-1 for a record without a timestamp."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Headers:
        """Its headers, in order."""

    @property
    def is_append_time(self) -> bool:
        """Whether the cluster has set the timestamp, and not the producer."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What is written to the target; without a ``timestamp_ms`` the target gives the present."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        return sum(len(part) for part in self._parts(self.headers) if part is not None)

    @property
    def content(self) -> bytes:
        """A hash of key, value and headers, without those that say where a record has been.

        Each hop appends one of these; another replicator, or an earlier version, appends none.
        """
        digest = sha256()  # which Spark has as well
        own = tuple(header for header in self.headers if header[0] != PROVENANCE)
        for part in self._parts(own):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return digest.digest()

    def _parts(self, headers: Headers) -> Iterator[bytes | None]:
        for part in (self.key, self.value, *chain.from_iterable(headers)):
            yield part.encode() if isinstance(part, str) else part


@dataclass(frozen=True, slots=True)
class CopyRule:
    """The rule of one flow.

    Key, value, header order and nulls stay the same, and every record is copied, except for:

    Args:
        timestamps: ``preserve`` keeps a record's timestamp, ``broker`` leaves it to the target.
        mark: The source's alias, if it is appended as a header `PROVENANCE`.
        not_to: The target's alias, if records that have been there are not copied.
        chains: The transforms of each topic of the source that has any. The methods below are for
            records of other topics.
        schemas: The ids that copies get in the place of those of the source's schema registry.
    """

    timestamps: Timestamps = "preserve"
    mark: str | None = None
    not_to: str | None = None
    chains: Mapping[str, Chain] = field(default_factory=dict)
    schemas: KnownIds = field(default_factory=KnownIds)

    def only(self, topics: Collection[str]) -> "CopyRule":
        """Returns the rule for *topics* alone: the same, without what concerns others."""
        if not self.chains:
            return self
        kept = {topic: chain for topic, chain in self.chains.items() if topic in topics}
        return replace(self, chains=kept)

    def is_copied(self, record: LogRecord) -> bool:
        """Returns whether *record* of the source is copied."""
        return self.not_to is None or _hop(self.not_to) not in record.headers

    def copy_of(self, record: LogRecord) -> Copy:
        """Returns the copy of *record* of the source."""
        has_time = self.timestamps == "preserve" and record.timestamp_ms >= 0
        added = () if self.mark is None else (_hop(self.mark),)
        time_ms = record.timestamp_ms if has_time else None
        return Copy(record.key, record.value, (*record.headers, *added), time_ms)

    def original(self, topic: str, record: LogRecord) -> Fingerprint | None:
        """Returns the fingerprint of *record* of the source's *topic*, by what its copy would be.

        Its copy has the target's ids of schemas, which the interceptor puts there.
        """
        if not self.is_copied(record):
            return None
        copied = self.copy_of(record)
        key, headers = self.schemas.translated(topic, "key", copied.key, copied.headers)
        value, headers = self.schemas.translated(topic, "value", copied.value, headers)
        content = replace(copied, key=key, value=value, headers=headers).content
        return Fingerprint(record.offset, content, copied.timestamp_ms)

    def copy(self, record: LogRecord) -> Fingerprint:
        """Returns the fingerprint of the target's *record*, without a time the target set."""
        is_own = self.timestamps == "preserve" and not record.is_append_time
        time_ms = record.timestamp_ms if is_own and record.timestamp_ms >= 0 else None
        content = Copy(record.key, record.value, record.headers, time_ms).content
        return Fingerprint(record.offset, content, time_ms)


def _hop(alias: str) -> tuple[str, bytes]:
    return PROVENANCE, alias.encode()
