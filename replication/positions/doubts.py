"""What becomes of partitions whose records are to be compared, if that finds nothing. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from replication.model import Position, TopicPartition
from replication.offsets.guard import Refusal, unmatched
from replication.offsets.resume import CountAhead, Decision, MatchTail
from replication.positions.spans import LogSpans

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
