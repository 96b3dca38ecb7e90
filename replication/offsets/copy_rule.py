"""What the copy of a record looks like, and which records are copied at all. Pure.

One rule for the query, which applies its Spark twin (`replication.spark.copies`), and for whoever
compares records of both sides: an original is compared by what its copy would be. So whatever is to
change a record, or to leave records out, is a field of `CopyRule`, in both places and nowhere else.
`tests/spark/test_copies.py` compares the two. Only Spark evaluates the expressions of transforms,
so records of topics that have some are read by `replication.positions.originals`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from typing import Protocol

from replication.model import PROVENANCE, Chain, Headers, Timestamps
from replication.offsets.runs import OffsetRun
from replication.schemas.values import KnownIds


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A record's place, the hash of its content, and its time where that tells anything.

    Args:
        offset: The record's.
        content: A hash of key, value and headers: equal hashes stand for equal content.
        time_ms: Its timestamp. None for an original that has none, so that the producer gave its
            copy the present; and for a copy whose time the target has set.
    """

    offset: int
    content: bytes | int
    time_ms: int | None

    def equals(self, other: "Fingerprint") -> bool:
        """Returns whether one copies the other: a time that only one has does not count."""
        times = {self.time_ms, other.time_ms}
        return self.content == other.content and (len(times) == 1 or None in times)


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
        return self.not_to is None or _hop(self.not_to) not in record.headers

    def copy_of(self, record: LogRecord) -> Copy:
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


# Finds a safe resume position after a crash when the target's last records differ.
#
# Normally, counting the records after the anchor is enough: the target's tail is an unbroken copy
# of the source records after it. Where a comparison shows that it is not, `align` finds a position
# from which resuming loses no record, at the price of repeating some.


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of `align`.

    Args:
        upstream: Where to resume reading the source. Every source record before it is on the
            target.
        matched: Source records found on the target.
        target_only: Target records that match nothing: from another producer, compacted away on
            the source, or copies of later source records, which resuming at *upstream* repeats.
        runs: The matched sections, each unbroken on the target: rows for the offset map.
    """

    upstream: int
    matched: int
    target_only: int
    runs: tuple[OffsetRun, ...]


def align(
    source: Iterator[Fingerprint], target: Iterator[Fingerprint], *, source_end: int
) -> Alignment:
    """Finds how far the target holds the source's records, in order, starting at the anchor.

    The walk takes the target records one by one. If a record equals the next expected source
    record, both sides advance; if not, the target record is passed over. Taking the first match is
    never worse than waiting for a later one, so no longer match exists. Every source record before
    ``upstream`` was therefore found on the target, each at its own record, and all later ones are
    read again. So nothing is lost, whatever caused the mismatch:

    - A gap (the target rejected a record and accepted later ones): the walk stops at the rejected
      record. It and everything after it are written again, the later ones for the second time.
    - Another producer's records match no expected record and are passed over.
    - Compaction of the source after the crash: the removed records exist on the target only, and
      are passed over in the same way. The remaining ones are expected and found.
    - Compaction of the target: a removed record is a gap.
    - Identical records: each target record counts for one source record only. If another
      producer's record equals the expected one in key, value, headers and timestamp, then the
      target holds that record, whoever wrote it.
    - Records without a timestamp, or with one that the target has set, are equal by the rest.

    Args:
        source: The source records from the anchor on, ascending; read at most one record past the
            last match.
        target: The target records from the anchor to the log end, ascending. A hash has at least 64
            bits, because records with equal hashes are taken to be equal.
        source_end: The offset at which *source* ends: the answer if every record of it was found.
    """
    runs: list[OffsetRun] = []
    target_only = 0
    expected = next(source, None)
    for copy in target:
        if expected is None or not expected.equals(copy):
            target_only += 1
            continue
        _add(runs, expected.offset, copy.offset)
        expected = next(source, None)
    upstream = source_end if expected is None else expected.offset
    return Alignment(upstream, sum(run.count for run in runs), target_only, tuple(runs))


@dataclass(frozen=True, slots=True)
class Regrown:
    """What a target has got behind the place where it was cut.

    Args:
        present: The first offset of the source that it has got there, and the one after the last:
            what the flow had still to copy when the log was cut.
        missing: The offsets before them that were cut off, and are not there again; None if all
            are.
        runs: What it has got, in the order of its log.
    """

    present: tuple[int, int]
    missing: tuple[int, int] | None
    runs: tuple[OffsetRun, ...]


def align_regrown(
    lost_from: int,
    source: Callable[[], Iterator[Fingerprint]],
    target: Iterator[Fingerprint],
    *,
    source_end: int,
) -> Regrown | None:
    """Finds what a target has got behind a cut; None if that is anything else than copies.

    First come the records that were to be copied next. What was cut off may follow, as far as an
    earlier call has led to it.

    Args:
        lost_from: The source offset of the first record that was cut off.
        source: Begins the source's records from there on, each time anew.
        target: The target's records from the cut to the log end.
        source_end: The offset at which *source* ends.
    """
    runs: list[OffsetRun] = []
    copy = next(target, None)
    if copy is None:
        return None
    originals = source()
    expected = next((one for one in originals if one.equals(copy)), None)
    if expected is None:
        return None
    first = expected.offset
    while copy is not None and expected is not None and expected.equals(copy):
        _add(runs, expected.offset, copy.offset)
        copy, expected = next(target, None), next(originals, None)
    present = first, source_end if expected is None else expected.offset
    lost = (one for one in source() if lost_from <= one.offset < first)
    expected = next(lost, None)
    again: list[OffsetRun] = []
    while copy is not None and expected is not None and expected.equals(copy):
        _add(again, expected.offset, copy.offset)
        copy, expected = next(target, None), next(lost, None)
    if copy is not None:
        return None
    missing = None if expected is None else (expected.offset, first)
    return Regrown(present, missing, (*runs, *again))


def _add(runs: list[OffsetRun], upstream: int, downstream: int) -> None:
    """Extends the last of *runs* by a matched record, or starts a new run after a break."""
    if runs and runs[-1].tgt_until == downstream:
        last = runs.pop()
        runs.append(OffsetRun(last.src_from, upstream + 1, last.tgt_from, last.count + 1))
    else:
        runs.append(OffsetRun(upstream, upstream + 1, downstream, 1))
