"""After the last step: operators' moves of partitions that would go on by themselves. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from replication.model import TopicPartition
from replication.offsets.guard import Accepted
from replication.offsets.moved import MovedPosition, Moving, OwnPosition, move
from replication.offsets.resume import Resume, StartFresh
from replication.positions.spans import LogSpans
from replication.positions.verdicts import Counted
from replication.topics.topic_plan import TopicPlan


@dataclass(frozen=True, slots=True)
class AskedPositions:
    """What operators ask of the positions of a flow, by upstream partition.

    Args:
        accepted: Where partitions may go on that the guard refuses.
        moves: Where partitions are to go on that would go on elsewhere.
    """

    accepted: Mapping[TopicPartition, Accepted] = field(default_factory=dict)
    moves: Mapping[TopicPartition, Moving] = field(default_factory=dict)


NOTHING_ASKED: Final = AskedPositions()


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
