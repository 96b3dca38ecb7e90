"""Compares topics of two clusters record by record, for the demo and the tests.

Reads both logs of a partition in parallel, in order, up to the log ends seen at the start. The
distance between equal records bounds the memory, not the size of the topic.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest

from replication.demo.topic_log import Content, Record, TopicLog
from replication.model import Isolation, TopicPartition
from replication.offsets.map import Bounded, Exact, NoAnswer, OffsetMap, Translation, sentence
from replication.offsets.runs import OffsetRun

SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between two logs. An offset is None past the end of its log."""

    partition: int
    upstream: int | None
    downstream: int | None
    text: str

    def __str__(self) -> str:
        return (
            f"partition {self.partition}, upstream {self.upstream}, downstream {self.downstream}: "
            f"{self.text}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """The comparison of one partition.

    Args:
        partition: Its number.
        source_records: Records of the source partition.
        target_records: Records of the target partition.
        missing: Source records that the target lacks.
        repeated: Surplus copies of source records on the target.
        extra: Target records that the source does not have.
        sections: Sequences of equal records without a gap on either side; 1 is a dense log.
        difference: The first difference in order; None if all records are equal.
        offsets: (upstream, downstream) of each equal record before any difference, if kept.
    """

    partition: int
    source_records: int
    target_records: int
    missing: int
    repeated: int
    extra: int
    sections: int
    difference: Difference | None
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The comparison of a topic with its copy, all partitions."""

    topic: str
    remote_topic: str
    partitions: tuple[PartitionReport, ...]

    @property
    def source_records(self) -> int:
        """Records on the source."""
        return sum(part.source_records for part in self.partitions)

    @property
    def target_records(self) -> int:
        """Records on the target."""
        return sum(part.target_records for part in self.partitions)

    @property
    def missing(self) -> int:
        """Source records that the target lacks."""
        return sum(part.missing for part in self.partitions)

    @property
    def repeated(self) -> int:
        """Surplus copies of source records on the target."""
        return sum(part.repeated for part in self.partitions)

    @property
    def extra(self) -> int:
        """Target records that the source does not have."""
        return sum(part.extra for part in self.partitions)

    @property
    def difference(self) -> Difference | None:
        """The first difference in the lowest partition that has one."""
        return next((part.difference for part in self.partitions if part.difference), None)

    @property
    def is_equal(self) -> bool:
        """Whether both sides hold the same records in the same order, partition by partition."""
        return self.difference is None

    @property
    def is_dense(self) -> bool:
        """Whether upstream and downstream offsets differ by one constant in each partition."""
        return all(part.sections <= 1 for part in self.partitions)

    def __str__(self) -> str:
        counts = f"{self.source_records} on the source, {self.target_records} on the target"
        verdict = (
            "equal"
            if self.is_equal
            else f"{self.missing} missing, {self.repeated} repeated, {self.extra} extra; "
            f"first difference: {self.difference}"
        )
        return f"{self.topic} -> {self.remote_topic}: {counts}; {verdict}"


def compare(
    source: str,
    target: str,
    topics: Mapping[str, str],
    *,
    isolation: Isolation = "read_committed",
    with_timestamps: bool = True,
    keep_offsets: bool = False,
    patience_seconds: float = 30.0,
) -> dict[str, TopicReport]:
    """Compares topics with their copies: key, value, nulls, headers, timestamp and order.

    Args:
        source: ``bootstrap.servers`` of the source.
        target: ``bootstrap.servers`` of the target.
        topics: Upstream name -> remote name.
        isolation: Which source records count. On the target every record counts.
        with_timestamps: False if the target's broker sets the timestamps.
        keep_offsets: Whether reports contain the offsets of each pair of equal records.
        patience_seconds: How long to wait for a cluster that does not answer.

    Returns:
        A report for each topic, by its upstream name.

    Raises:
        ClusterError: A cluster did not answer, or a log could not be read to its end.
    """
    walks = partial(_Walk, with_timestamps=with_timestamps, keep_offsets=keep_offsets)
    return {
        topic: _compare_topic(
            TopicLog(source, topic, isolation, patience_seconds),
            TopicLog(target, remote_topic, "read_uncommitted", patience_seconds),
            walks,
        )
        for topic, remote_topic in topics.items()
    }


def _compare_topic(
    upstream: TopicLog, downstream: TopicLog, new_walk: Callable[[int], "_Walk"]
) -> TopicReport:
    ours, theirs = upstream.partitions(), downstream.partitions()
    parts = []
    for partition in sorted(ours | theirs):
        walk = new_walk(partition)
        walk.along(
            upstream.records(partition) if partition in ours else iter(()),
            downstream.records(partition) if partition in theirs else iter(()),
        )
        read_again = walk.surplus and partition in ours
        parts.append(walk.report(upstream.records(partition) if read_again else iter(())))
    return TopicReport(upstream.topic, downstream.topic, tuple(parts))


class _Walk:
    def __init__(self, partition: int, *, with_timestamps: bool, keep_offsets: bool) -> None:
        self._partition = partition
        self._with_timestamps = with_timestamps
        self._keep_offsets = keep_offsets
        self._offsets: list[tuple[int, int]] = []
        self._sections = 0
        self._counts = [0, 0]
        self._difference: Difference | None = None
        # By hash: source records not yet seen on the target, minus surplus ones seen there.
        self._balance: Counter[int] = Counter()

    @property
    def surplus(self) -> bool:
        return any(count < 0 for count in self._balance.values())

    def along(self, source: Iterator[Record], target: Iterator[Record]) -> None:
        expected = (-1, -1)
        for ours, theirs in zip_longest(source, target):
            if self._difference is None:
                if ours and theirs and self._same(ours.content) == self._same(theirs.content):
                    at = (ours.offset, theirs.offset)
                    self._sections += at != expected
                    expected = (at[0] + 1, at[1] + 1)
                    self._counts[0] += 1
                    self._counts[1] += 1
                    if self._keep_offsets:
                        self._offsets.append(at)
                    continue
                self._difference = _difference(self._partition, ours, theirs)
            for side, record, sign in ((0, ours, 1), (1, theirs, -1)):
                if record is not None:
                    self._counts[side] += 1
                    self._weigh(hash(self._same(record.content)), sign)

    def report(self, source_again: Iterator[Record]) -> PartitionReport:
        """Returns the result; a second read of the source tells repeated from extra records."""
        too_many = {key: -count for key, count in self._balance.items() if count < 0}
        known = {
            key for record in source_again if (key := hash(self._same(record.content))) in too_many
        }
        return PartitionReport(
            partition=self._partition,
            source_records=self._counts[0],
            target_records=self._counts[1],
            missing=sum(count for count in self._balance.values() if count > 0),
            repeated=sum(too_many[key] for key in known),
            extra=sum(count for key, count in too_many.items() if key not in known),
            sections=self._sections,
            difference=self._difference,
            offsets=tuple(self._offsets),
        )

    def _same(self, content: Content) -> Content:
        return content if self._with_timestamps else content._replace(timestamp_ms=0)

    def _weigh(self, key: int, sign: int) -> None:
        self._balance[key] += sign
        if not self._balance[key]:
            del self._balance[key]  # memory grows only with the distance between equal records


def _difference(partition: int, ours: Record | None, theirs: Record | None) -> Difference:
    upstream = ours.offset if ours else None
    downstream = theirs.offset if theirs else None
    if ours is None or theirs is None:
        text = f"the {'source' if ours is None else 'target'} has no more records"
    else:
        pairs = zip(Content._fields, ours.content, theirs.content, strict=True)
        text = ", ".join(
            f"{name} {_short(here)} became {_short(there)}"
            for name, here, there in pairs
            if here != there
        )
    return Difference(partition, upstream, downstream, text)


def _short(value: object) -> str:
    text = repr(value)
    shown = text[:SHOWN_CHARACTERS]
    return text if shown == text else f"{shown}... ({len(text)} characters)"


# The verdict on each topic: both sides are compared, and the offset map with the records.

RunsOf = Callable[[TopicPartition], Sequence[OffsetRun]]
"""The runs of an upstream partition, merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one topic.

    Args:
        report: The comparison.
        runs: Runs of the offset map that hold records, all partitions.
        sparse: How many of these runs are not dense.
        unrecorded: Records that the offset map does not cover yet, while the mirror is running.
        wrong: The first answer of the offset map that does not fit the records; None if all do.
        latencies_ms: Ascending.
    """

    report: TopicReport
    runs: int
    sparse: int
    unrecorded: int
    wrong: str | None
    latencies_ms: Sequence[float]

    @property
    def is_right(self) -> bool:
        """Whether both sides are equal and the offset map is right."""
        return self.report.is_equal and self.wrong is None

    @property
    def offset_map(self) -> str:
        """The size of the offset map in words."""
        if not self.runs:
            return "not written yet"
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        size = f"{self.sparse} of {runs} sparse" if self.sparse else f"dense, {runs}"
        return f"{size}, {self.unrecorded} to come" if self.unrecorded else size


def find(
    reports: Mapping[str, TopicReport],
    latencies_ms: Mapping[str, Sequence[float]],
    runs_of: RunsOf,
    *,
    is_running: bool,
) -> list[Finding]:
    """Checks the offset map against the records of each topic.

    Args:
        reports: The comparison of each topic.
        latencies_ms: By remote topic, ascending.
        runs_of: The offset map.
        is_running: Whether the mirror is running, so that the offset map may lag behind.
    """
    findings = []
    for report in reports.values():
        runs = {
            part.partition: runs_of(TopicPartition(report.topic, part.partition))
            for part in report.partitions
        }
        ends = {
            partition: max((run.src_until for run in part_runs), default=0)
            for partition, part_runs in runs.items()
        }
        filled = [run for part_runs in runs.values() for run in part_runs if run.count]
        unrecorded = sum(  # equal records at or after the end of the offset map
            upstream >= ends[part.partition]
            for part in report.partitions
            for upstream, _ in part.offsets
        )
        wrong = chain.from_iterable(
            _wrong_answers(report.topic, part, OffsetMap(runs[part.partition]))
            for part in report.partitions
        )
        is_short = unrecorded and not is_running
        missing = f"the offset map lacks {unrecorded} records" if is_short else None
        findings.append(
            Finding(
                report=report,
                runs=len(filled),
                sparse=sum(not run.is_dense for run in filled),
                unrecorded=unrecorded,
                wrong=next(wrong, missing),
                latencies_ms=latencies_ms.get(report.remote_topic, ()),
            )
        )
    return findings


def _wrong_answers(topic: str, part: PartitionReport, offset_map: OffsetMap) -> Iterator[str]:
    for upstream, downstream in part.offsets:
        answer = offset_map.translate(upstream)
        if not fits(answer, downstream):
            yield (
                f"{topic}-{part.partition}: the copy of offset {upstream} is at {downstream}, "
                f"but the offset map says {sentence(answer)}"
            )


def fits(answer: Translation, downstream: int) -> bool:
    """Returns whether *answer* skips no record and repeats no more than it claims.

    Args:
        answer: What the offset map says of a record.
        downstream: Where the copy of that record is.
    """
    match answer:
        case Exact(offset):
            return offset == downstream
        case Bounded(offset, reread):
            return offset <= downstream <= offset + reread
        case NoAnswer():
            return False
        case _:  # ahead of the offset map, while the mirror is still running
            return answer.offset <= downstream
