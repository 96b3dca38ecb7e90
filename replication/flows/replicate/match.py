"""Compares all records of a span whose ends differ: up to which record do both sides agree?"""

from collections.abc import Collection

from replication.flows.context import FlowContext
from replication.kafka.rejections import Rejections
from replication.model import NewEvent, Position, Timestamps, TopicPartition
from replication.offsets.alignment import Alignment, align
from replication.offsets.resume import CountAhead
from replication.offsets.runs import OffsetRun, anchor
from replication.spark.counting import fingerprints


def compared_timestamps(
    context: FlowContext, remote_topics: Collection[str]
) -> dict[str, Timestamps]:
    """Whether records on each of *remote_topics* have the timestamps of their originals.

    They have not if the flow leaves them to the broker, or if the broker sets them on its own.
    """
    preserved = context.config.record_timestamps
    if preserved == "broker" or not remote_topics:
        return dict.fromkeys(remote_topics, preserved)
    settings = Rejections().call(context.target.topic_config, remote_topics)
    on_append = {
        topic
        for topic, own in settings.items()
        if "message.timestamp.type" in own
        and own["message.timestamp.type"].value == "LogAppendTime"
    }
    return {topic: "broker" if topic in on_append else preserved for topic in remote_topics}


def realign(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    source_end: int,
    timestamps: Timestamps,
) -> Alignment:
    """Finds the runs on which both sides agree, and where resuming loses nothing."""
    config = context.config
    start = counted.anchor
    windows = (start.upstream, source_end), (start.downstream, counted.log_end)
    source = fingerprints(context.spark, config.source.consumer, tp, windows[0], timestamps)
    target = fingerprints(context.spark, config.target.consumer, remote, windows[1], timestamps)
    return align(source, target, source_end=source_end)


def realigned_runs(
    tp: TopicPartition, remote: TopicPartition, counted: CountAhead, found: Alignment
) -> tuple[list[OffsetRun], NewEvent]:
    """The runs of *found* and an anchor at the target's log end, and an event for the reason."""
    event = NewEvent(
        "realigned",
        f"{describe_alignment(remote, counted, found)}; resuming {tp} at offset "
        f"{found.upstream}, at-least-once",
        "at least once",
        {**tp._asdict(), "offset_from": counted.anchor.upstream, "offset_until": found.upstream},
    )
    return [*found.runs, anchor(Position(found.upstream, counted.log_end))], event


def describe_alignment(remote: TopicPartition, counted: CountAhead, found: Alignment) -> str:
    """How many of the *counted* records match, for an operator."""
    return (
        f"{found.matched} of {counted.records} unrecorded records on {remote} match the source, "
        f"{found.target_only} do not"
    )
