"""The verdict on each topic: both sides are compared, and the offset map with the records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
        runs: Runs of the offset map, all partitions.
        sparse: How many of these runs are not dense.
        wrong: The first answer of the offset map that does not fit the records; None if all do.
        latencies_ms: Ascending.
    """

    report: TopicReport
    runs: int
    sparse: int
    wrong: str | None
    latencies_ms: Sequence[float]

    @property
    def is_right(self) -> bool:
        """Whether both sides are equal and the offset map is right."""
        return self.report.is_equal and self.wrong is None

    @property
    def offset_map(self) -> str:
        """The size of the offset map in words."""
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return f"{self.sparse} of {runs} sparse" if self.sparse else f"dense, {runs}"


def find(
    reports: Mapping[str, TopicReport],
    latencies_ms: Mapping[str, Sequence[float]],
    runs_of: RunsOf,
) -> list[Finding]:
    """Checks the offset map against the records of each topic."""
    return [
        _finding(report, latencies_ms.get(report.remote_topic, ()), runs_of)
        for report in reports.values()
    ]


def _finding(report: TopicReport, latencies_ms: Sequence[float], runs_of: RunsOf) -> Finding:
    runs_by_partition = {
        part.partition: runs_of(TopicPartition(report.topic, part.partition))
        for part in report.partitions
    }
    runs = [run for partition_runs in runs_by_partition.values() for run in partition_runs]
    wrong = (
        answer
        for part in report.partitions
        for answer in _wrong_answers(report.topic, part, runs_by_partition[part.partition])
    )
    return Finding(
        report=report,
        runs=len(runs),
        sparse=sum(not run.is_dense for run in runs),
        wrong=next(wrong, None),
        latencies_ms=latencies_ms,
    )


def _wrong_answers(topic: str, part: PartitionReport, runs: Sequence[OffsetRun]) -> Iterator[str]:
    offset_map = OffsetMap(runs)
    for upstream, downstream in part.offsets:
        answer = offset_map.translate(upstream)
        if not _is_right(answer, downstream):
            yield (
                f"{topic}-{part.partition}: the copy of offset {upstream} is at {downstream}, "
                f"but the offset map says {sentence(answer)}"
            )


def _is_right(answer: Translation, downstream: int) -> bool:
    """Whether *answer* skips no record and repeats no more than it claims."""
    match answer:
        case Exact(offset):
            return offset == downstream
        case Bounded(offset, reread):
            return offset <= downstream <= offset + reread
        case NoAnswer():
            return False
        case _:  # ahead of the offset map, while the mirror is still running
            return answer.offset <= downstream
