"""The verdict on each topic: both sides are compared, and the offset map with the records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from replication.demo.compare import PartitionReport, TopicReport
from replication.model import TopicPartition
from replication.offsets.map import Bounded, Exact, NoAnswer, OffsetMap, Translation
from replication.offsets.runs import OffsetRun
from replication.offsets.wording import sentence

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
    return [
        _finding(
            report,
            latencies_ms.get(report.remote_topic, ()),
            {
                part.partition: runs_of(TopicPartition(report.topic, part.partition))
                for part in report.partitions
            },
            is_running=is_running,
        )
        for report in reports.values()
    ]


def _finding(
    report: TopicReport,
    latencies_ms: Sequence[float],
    runs: Mapping[int, Sequence[OffsetRun]],
    *,
    is_running: bool,
) -> Finding:
    maps = {partition: OffsetMap(part_runs) for partition, part_runs in runs.items()}
    filled = [run for part_runs in runs.values() for run in part_runs if run.count]
    unrecorded = sum(_unrecorded(part, runs[part.partition]) for part in report.partitions)
    wrong = chain.from_iterable(
        _wrong_answers(report.topic, part, maps[part.partition]) for part in report.partitions
    )
    missing = (
        f"the offset map lacks {unrecorded} records" if unrecorded and not is_running else None
    )
    return Finding(
        report=report,
        runs=len(filled),
        sparse=sum(not run.is_dense for run in filled),
        unrecorded=unrecorded,
        wrong=next(wrong, missing),
        latencies_ms=latencies_ms,
    )


def _unrecorded(part: PartitionReport, runs: Sequence[OffsetRun]) -> int:
    """Returns the number of equal records at or after the end of the offset map."""
    end = max((run.src_until for run in runs), default=0)
    return sum(upstream >= end for upstream, _ in part.offsets)


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
