"""Compares all records of a span whose ends differ: up to which record do both sides agree?"""

from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.alignment import Alignment, align
from replication.offsets.resume import CountAhead
from replication.offsets.runs import OffsetRun, anchor
from replication.positions.sides import FlowSides
from replication.spark.fingerprints import copies, originals
from replication.topics.copy_rule import copy_rule


def realign(
    context: FlowSides,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    source_end: int,
) -> Alignment:
    """Finds the runs on which both sides agree, and where resuming loses nothing."""
    config = context.config
    start = counted.anchor
    windows = (start.upstream, source_end), (start.downstream, counted.log_end)
    rule = copy_rule(config, [tp.topic])
    source = originals(context.spark, config.source.consumer, tp, windows[0], rule)
    target = copies(context.spark, config.target.consumer, remote, windows[1], rule)
    return align(source, target, source_end=source_end)


def realigned_runs(
    tp: TopicPartition, remote: TopicPartition, counted: CountAhead, found: Alignment
) -> tuple[list[OffsetRun], NewEvent]:
    """Returns *found*'s runs, an anchor at the target's log end, and an event for the reason."""
    event = NewEvent(
        "realigned",
        f"{describe_alignment(remote, counted, found)}; resuming {tp} at offset "
        f"{found.upstream}, at-least-once",
        "at least once",
        {**tp._asdict(), "offset_from": counted.anchor.upstream, "offset_until": found.upstream},
    )
    return [*found.runs, anchor(Position(found.upstream, counted.log_end))], event


def describe_alignment(remote: TopicPartition, counted: CountAhead, found: Alignment) -> str:
    """Returns how many of the *counted* records match, for an operator."""
    return (
        f"{found.matched} of {counted.records} unrecorded records on {remote} match the source, "
        f"{found.target_only} do not"
    )
