"""Where each partition of a flow would resume, as a start would find it. Only reads.

Most positions follow from offsets and ids. Where a target has records that the offset map does not
know, as before a take-over, they are compared with the source by what a start asks as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from replication.config.tree import FlowConfig
from replication.control.starts import StoredMap, find_starts
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.offsets.guard import Jump, Refusal
from replication.offsets.moved import MovedPosition
from replication.offsets.resume import CountAhead, MatchTail, Missing, Resume, StartFresh
from replication.positions.compare import Verdict
from replication.positions.find import find_by_spans
from replication.positions.moves import move_all
from replication.positions.place import Match
from replication.positions.rule import rule_all
from replication.positions.sides import AskedSides, compared
from replication.positions.survey import Survey
from replication.positions.verdicts import Counted, Realigned
from replication.topics.topic_plan import TopicPlan

StartOrigin = Literal[
    "offset map",
    "auto.offset.reset",
    "target",
    "taken over",
    "created again",
    "decision",
    "set aside",
    "problem",
]
LATER = "earliest: it is newer than the flow; latest is for what was there at its first start"


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Where one partition resumes on the source.

    Args:
        partition: Upstream.
        offset: The first offset to read; None where only the start itself can find it.
        origin: What decides it.
        reason: The same in words.
    """

    partition: TopicPartition
    offset: int | None
    origin: StartOrigin
    reason: str


def find_resumes(
    config: FlowConfig,
    topics: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    stored: StoredMap,
) -> tuple[tuple[PartitionStart, ...], tuple[str, ...]]:
    """Finds where the partitions of *topics* resume.

    Returns:
        The starts, and why positions of MirrorMaker 2 cannot be used, one line each.

    Raises:
        IdentityError: The state is of other clusters.
        ClusterError: A cluster does not answer.
        SetupError: Records must be compared, and Spark does not start here.
    """
    spans, starts = find_starts(config, topics, clusters, stored)
    verdicts: dict[TopicPartition, Verdict] = dict(
        rule_all(config, topics, starts.decisions, stored.accepted)
    )
    warnings: tuple[str, ...] = ()
    if in_doubt := _in_doubt(config, topics, starts):
        asked = topics.without(topics.topics.keys() - in_doubt)
        with AskedSides(config, clusters) as sides, compared(config.flow):
            found = find_by_spans(sides, asked, stored, spans, stored.asked)
        verdicts |= found.verdicts
        verdicts |= found.refused
        warnings = found.warnings
    problems = {tp.topic for tp, at in verdicts.items() if isinstance(at, Refusal | Missing)}
    resuming = {tp: at for tp, at in verdicts.items() if tp.topic not in problems}
    verdicts |= move_all(topics, spans, resuming, stored.asked.moves)[0]
    resumes = {tp: _start(config, tp, at, starts) for tp, at in verdicts.items()}
    return tuple(_with_topics(resumes)), warnings


def _in_doubt(config: FlowConfig, topics: TopicPlan, starts: Survey) -> set[str]:
    """Returns the topics with records that neither the offset map nor an offset explains."""
    return {
        tp.topic
        for tp, decision in starts.decisions.items()
        if isinstance(decision, MatchTail)
        or (
            config.takeover_topic
            and isinstance(decision, StartFresh)
            and decision.position.downstream
            and topics.is_shared(tp)
        )
    }


def _start(
    config: FlowConfig, tp: TopicPartition, verdict: Verdict, starts: Survey
) -> PartitionStart:
    match verdict:
        case Refusal() | Missing():
            return PartitionStart(tp, None, "problem", verdict.text)
        case MatchTail():  # of a topic that is refused for another partition
            return PartitionStart(tp, None, "target", "by the records of the target")
        case CountAhead(anchor, records):
            plural = "s" * (records != 1)
            skips = f"then skips {records} record{plural} that the target already has"
            return PartitionStart(tp, anchor.upstream, "offset map", f"offset map; {skips}")
        case Counted(run):
            text = f"offset map, and {run.count} more records that the target already has"
            return PartitionStart(tp, run.end.upstream, "offset map", text)
        case Realigned(runs, event):
            return PartitionStart(tp, runs[-1].end.upstream, "target", event.text)
    origin, reason = _because(config, tp, verdict, starts)
    return PartitionStart(tp, verdict.position.upstream, origin, reason)


def _because(
    config: FlowConfig,
    tp: TopicPartition,
    verdict: Resume | StartFresh | Match | Jump | MovedPosition,
    starts: Survey,
) -> tuple[StartOrigin, str]:
    match verdict:
        case Resume():
            return "offset map", "offset map"
        case Match(_, reason):
            return "taken over" if verdict.is_taken_over else "target", reason
        case Jump() | MovedPosition():
            return "decision", verdict.text(tp)
        case StartFresh():
            if tp in starts.void:
                return "created again", starts.void[tp]
            fresh = f"auto.offset.reset={config.auto_offset_reset}"
            return "auto.offset.reset", LATER if tp in starts.later else fresh


def _with_topics(found: Mapping[TopicPartition, PartitionStart]) -> list[PartitionStart]:
    """Returns *found*, where a topic that has a problem is set aside with all its partitions."""
    problems = {tp.topic: tp for tp, start in found.items() if start.origin == "problem"}
    return [
        _aside(start, problems[tp.topic])
        if tp.topic in problems and start.origin != "problem"
        else start
        for tp, start in found.items()
    ]


def _aside(start: PartitionStart, other: TopicPartition) -> PartitionStart:
    where = "" if start.offset is None else f"at offset {start.offset}, "
    reason = f"set aside with partition {other.partition}; else {where}{start.reason}"
    return PartitionStart(start.partition, None, "set aside", reason)
