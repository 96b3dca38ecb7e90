"""The first step: where partitions start, as far as log ends and topic ids decide. Pure.

The loop and the commands ask here, so that ``plan`` says what the start does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from replication.config.tree import FlowConfig
from replication.model import Chain, NewEvent, Position, TopicPartition
from replication.offsets.guard import (
    Accepted,
    CountAhead,
    Decision,
    FirstStart,
    Jump,
    MatchTail,
    Missing,
    Recreated,
    Refusal,
    Resume,
    StartFresh,
    TopicIds,
    Void,
    check_topic_ids,
    plan_positions,
    read_over,
    recreated,
    rule,
    start_over,
    starts_at_latest,
    unmatched,
    with_map,
)
from replication.offsets.map import TopicMap
from replication.offsets.moved import MovedPosition, Moving, OwnPosition, move
from replication.offsets.runs import Epochs, OffsetRun, Stamps
from replication.state.table_reader import Anchor
from replication.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class LogSpans:
    """Offsets of a plan's partitions, by upstream partition; a partition may be absent.

    Args:
        earliest: The source's first offsets.
        source_ends: The source's log ends.
        target_ends: The log ends of the remote partitions.
        replaced: The upstream topics that were not those of the plan any more when the offsets had
            been read.
        held: Remote partitions of other topics or partitions of the flow, to which records were on
            their way all that time.
        epochs: Those of today's leaders; unknown where a partition is absent.
        source_cuts: Where the source's logs were cut below what was copied, as brokers say.
        target_cuts: The same for remote partitions.
        unsure: Partitions of which no broker says whether the source, or the target, was cut.
    """

    earliest: Mapping[TopicPartition, int]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    replaced: frozenset[str] = frozenset()
    held: frozenset[TopicPartition] = frozenset()
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)
    source_cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_cuts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unsure: tuple[frozenset[TopicPartition], frozenset[TopicPartition]] = frozenset(), frozenset()

    def source(self, tp: TopicPartition) -> tuple[int, int]:
        """Returns the source's first offset of *tp*, and its log end."""
        return self.earliest[tp], self.source_ends[tp]


class Stored(Protocol):
    """What the offset map says: positions, runs, and the ids of remote topics."""

    @property
    def anchors(self) -> Mapping[TopicPartition, Anchor]:
        """The newest position of each upstream partition."""

    @property
    def stamps(self) -> Mapping[TopicPartition, Stamps]:
        """Under which leaders of both sides the partitions were copied, as far as is known."""

    @property
    def remote_ids(self) -> Mapping[str, str]:
        """The ids of remote topics; topics of an earlier version of this software are absent."""

    @property
    def transforms(self) -> Mapping[str, Chain]:
        """What the newest copies of topics were transformed by; new topics are absent."""

    @property
    def first(self) -> FirstStart | None:
        """What existed on the source when the flow first started; None if it has not yet."""

    def runs(self, tp: TopicPartition) -> Sequence[OffsetRun]:
        """Returns the merged map of one upstream partition, for the newest topic id."""

    def maps(self, least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        """Returns the stored maps from offsets *least* on; some may be absent."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What `survey` decides.

    Args:
        decisions: For each partition of the plan; no policy is applied to refusals yet.
        void: Partitions whose stored position is of a deleted topic, and what was deleted.
        later: Partitions that are newer than the flow, to which ``latest`` does not apply.
    """

    decisions: Mapping[TopicPartition, Decision]
    void: Mapping[TopicPartition, str]
    later: frozenset[TopicPartition] = frozenset()


def survey(config: FlowConfig, plan: TopicPlan, stored: Stored, spans: LogSpans) -> Survey:
    """Decides where the partitions of *plan* start.

    A position of a deleted topic is not used. Where the target holds no record of the deleted
    source topic, nothing can be lost, and the partition starts over. Records that a new remote
    topic holds already say nothing of those before them: the flow's own producers, which knew the
    deleted topic, may have written them.
    """
    anchors = stored.anchors
    verdicts = {
        tp: _check_ids(plan, stored, tp, spans.target_ends.get(tp))
        for tp in plan.partitions
        if tp in anchors
    }
    void = {tp: found.text for tp, found in verdicts.items() if isinstance(found, Void)}
    new = plan.partitions if config.auto_offset_reset == "latest" else ()
    latest = starts_at_latest(stored.first, new, plan.source_ids, spans.earliest, spans.source_ends)
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in verdicts if tp not in void},
        spans.target_ends,
        spans.earliest,
        spans.source_ends,
        latest=latest,
        source_cuts=spans.source_cuts,
        target_cuts=spans.target_cuts,
        shared={tp for tp in plan.partitions if plan.is_shared(tp)},
    )
    for tp in void:
        if not isinstance(decisions[tp], Missing):
            is_same_source = anchors[tp].topic_id == plan.source_ids[tp.topic]
            upstream = start_over(
                anchors[tp].position,
                spans.earliest[tp],
                spans.source_ends[tp],
                keeps_offset=is_same_source and config.auto_offset_reset == "latest",
            )
            decisions[tp] = StartFresh(Position(upstream, spans.target_ends[tp]))
    for tp, verdict in verdicts.items():
        if isinstance(verdict, Recreated) and not isinstance(decisions[tp], Missing):
            known, log_end = anchors[tp].position, spans.target_ends[tp]
            decisions[tp] = recreated(verdict.text, known, spans.source(tp), log_end)
    for tp, decision in decisions.items():
        if isinstance(decision, Refusal) and decision.cause == "target-truncated":
            until = decision.log_end if decision.cut is None else decision.cut
            decisions[tp] = with_map(decision, stored.runs(tp), until)
        elif isinstance(decision, Refusal) and tp in spans.source_cuts:
            stamp = stored.stamps[tp].source
            if stamp is not None and decision.cause == "source-truncated":
                decisions[tp] = read_over(decision, anchors[tp].position, stamp.until)
    return Survey(decisions, void, frozenset(new) - latest.keys() - anchors.keys())


def _check_ids(
    plan: TopicPlan, stored: Stored, tp: TopicPartition, log_end: int | None
) -> Void | Recreated | None:
    known, remote = stored.anchors[tp], plan.topics[tp.topic]
    return check_topic_ids(
        (tp.topic, remote),
        TopicIds(known.topic_id, stored.remote_ids.get(remote)),
        TopicIds(plan.source_ids[tp.topic], plan.remote_ids.get(remote)),
        known.position.downstream,
        log_end,
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """The target's records after the offset map are the source's next ones: *run*.

    ``parts`` are the same run in pieces, where it has gaps; none for one piece.
    """

    run: OffsetRun
    parts: tuple[OffsetRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Realigned:
    """The target's records after the offset map are the source's next ones in part.

    Args:
        runs: What matches, and an anchor where the partition resumes, at least once.
        event: For the reason.
        foreign: The refusal for the records that match nothing; None if there are none.
    """

    runs: list[OffsetRun]
    event: NewEvent
    foreign: Refusal | None


NOT_FOUND = (
    "none of the last records of its remote partition is found in it (if MirrorMaker 2 wrote them, "
    "replication.takeover.topic may give the place)"
)
FOREIGN = "the last records of its remote partition match nothing in it"


def in_doubt(
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
    compared: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Refusal]:
    """Decides what becomes of *decisions* if comparing finds nothing; no record is read.

    Args:
        spans: Of the partitions.
        decisions: What the steps before have found.
        compared: Target log ends at which comparing has found nothing.
    """
    doubts = {}
    for tp, at in decisions.items():
        if isinstance(at, MatchTail):
            log_end, why, since = at.position.downstream, NOT_FOUND, None
        elif isinstance(at, CountAhead):
            log_end, why, since = at.log_end, FOREIGN, at.anchor
        else:
            continue
        is_known = compared.get(tp) == log_end
        text = f"{why}, and that has not changed since" if is_known else f"{tp}, in case that {why}"
        refusal = unmatched(text, Position(0, log_end), spans.source(tp), since)
        is_foreign = isinstance(at, CountAhead)
        doubts[tp] = replace(refusal, cause="foreign-records") if is_foreign else refusal
    return doubts


# The last step: the policy of the flow, or an operator's acceptance, decides on what is refused.
#
# Nothing before it knows a policy, so that whoever asks what is refused stops before it.

Decided = TypeVar("Decided")
NOTHING_ACCEPTED: Final[Mapping[TopicPartition, Accepted]] = MappingProxyType({})


def rule_all(
    config: FlowConfig,
    plan: TopicPlan,
    decided: Mapping[TopicPartition, Decided],
    accepted: Mapping[TopicPartition, Accepted] = NOTHING_ACCEPTED,
) -> dict[TopicPartition, Decided | Jump | Refusal]:
    """Makes of each refusal in *decided* what the policy or an acceptance says; the rest stays.

    A skip over records of another producer is what realigning does, so that is left as it is.
    """
    ruled: dict[TopicPartition, Decided | Jump | Refusal] = dict(decided)
    for tp, at in decided.items():
        refusal = at.foreign if isinstance(at, Realigned) else at
        if isinstance(refusal, Refusal):
            policy = config.guard.policy(refusal.cause, tp.topic)
            verdict = rule(refusal, policy, accepted.get(tp), plan.source_ids[tp.topic])
            is_skipped = isinstance(verdict, Jump) and verdict.decided_by == "skip"
            if not (is_skipped and isinstance(at, Realigned)):
                ruled[tp] = verdict
    return ruled


# After the last step: operators' moves of partitions that would go on by themselves.


@dataclass(frozen=True, slots=True)
class AskedPositions:
    """What operators ask of the positions of a flow, by upstream partition.

    Args:
        accepted: Where partitions may go on that the guard refuses.
        moves: Where partitions are to go on that would go on elsewhere.
    """

    accepted: Mapping[TopicPartition, Accepted] = field(default_factory=dict)
    moves: Mapping[TopicPartition, Moving] = field(default_factory=dict)


def own_position(verdict: object) -> OwnPosition | None:
    """Returns where a partition goes on by itself; None if a decision or a doubt is part of it."""
    match verdict:
        case Resume(position):
            return OwnPosition(position)
        case StartFresh(position):
            return OwnPosition(position, is_new=True)
        case Counted(run, parts):
            return OwnPosition(run.end, runs=parts or (run,))
    return None


def move_all(
    plan: TopicPlan,
    spans: LogSpans,
    found: Mapping[TopicPartition, object],
    moves: Mapping[TopicPartition, Moving],
) -> tuple[dict[TopicPartition, MovedPosition], dict[TopicPartition, str]]:
    """Applies *moves* to partitions that resume.

    Args:
        plan: The topics.
        spans: Of its partitions.
        found: How those resume that do.
        moves: What operators have asked for.

    Returns:
        The partitions that go on elsewhere, and why the moves of others are of no use any more.
    """
    moved: dict[TopicPartition, MovedPosition] = {}
    unmoved: dict[TopicPartition, str] = {}
    for tp in moves.keys() & found.keys():
        before = own_position(found[tp])
        if before is None:
            unmoved[tp] = "the flow had to find or to decide anew where the partition goes on"
            continue
        source, topic_id = spans.source(tp), plan.source_ids[tp.topic]
        result = move(moves[tp], before, source, spans.target_ends[tp], topic_id)
        if isinstance(result, MovedPosition):
            moved[tp] = result
        elif result is not None:
            unmoved[tp] = result
    others = {tp: moves[tp] for tp in moves.keys() & {*plan.partitions} - found.keys()}
    for tp, moving in others.items():
        if moving.topic_id != plan.source_ids[tp.topic]:
            unmoved[tp] = "the source topic was created again since the move was asked for"
    return moved, unmoved
