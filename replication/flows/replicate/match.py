"""Compares records when offsets alone are not conclusive.

Answers two questions. Are the last records of a counted span the same on both sides? If not, up to
which record do both sides agree?
"""

from collections.abc import Collection, Mapping

from replication.config.tree import FlowConfig
from replication.flows.context import FlowContext
from replication.kafka.reader import KafkaRecord, read_records
from replication.kafka.rejections import Rejections
from replication.model import Isolation, Position, Timestamps, TopicPartition
from replication.offsets.alignment import Alignment, align
from replication.offsets.resume import CountAhead
from replication.offsets.runs import OffsetRun, anchor
from replication.spark.counting import fingerprints

COMPARED_RECORDS = 20
"""The number of records at the end of a span that are compared one by one."""


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


def tails_match(
    config: FlowConfig,
    source: tuple[TopicPartition, int, int],
    target: tuple[TopicPartition, CountAhead],
    timestamps: Timestamps,
) -> bool:
    """Whether the last records of both spans are the same, in order.

    Target records that compaction has removed are skipped; the others must match by offset.

    Args:
        config: The flow.
        source: Partition, first offset and end offset of the counted span.
        target: The remote partition and the count.
        timestamps: As `compared_timestamps` has it.
    """
    tp, start, until = source
    remote, counted = target
    compared = min(COMPARED_RECORDS, counted.records)
    end = counted.anchor.downstream + counted.records
    written = read_records(config.target.consumer, remote, end - compared, end, "read_uncommitted")
    upstream = last_records(config.source.consumer, tp, (start, until), compared, config.isolation)
    from_end = dict(enumerate(reversed(upstream), start=1))
    return all(
        (place := end - record.offset) in from_end and same(from_end[place], record, timestamps)
        for record in written
    )


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
    end = start.downstream + counted.records
    windows = (start.upstream, source_end), (start.downstream, end)
    source = fingerprints(context.spark, config.source.consumer, tp, windows[0], timestamps)
    target = fingerprints(context.spark, config.target.consumer, remote, windows[1], timestamps)
    return align(source, target, source_end=source_end)


def realigned_runs(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    found: Alignment,
) -> list[OffsetRun]:
    """The runs of *found*, and an anchor at the target's log end; records an event."""
    context.tables.record_event(
        context.config.flow,
        "realigned",
        f"{describe_alignment(remote, counted, found)}; resuming {tp} at offset "
        f"{found.upstream}, at-least-once",
        topic=tp.topic,
        partition=tp.partition,
        offset_from=counted.anchor.upstream,
        offset_until=found.upstream,
        policy="at least once",
    )
    return [*found.runs, anchor(Position(found.upstream, counted.log_end))]


def describe_alignment(remote: TopicPartition, counted: CountAhead, found: Alignment) -> str:
    """How many of the *counted* records match, for an operator."""
    return (
        f"{found.matched} of {counted.records} unrecorded records on {remote} match the source, "
        f"{found.target_only} do not"
    )


def last_records(
    consumer: Mapping[str, str],
    tp: TopicPartition,
    span: tuple[int, int],
    wanted: int,
    isolation: Isolation,
) -> list[KafkaRecord]:
    """The last *wanted* records of *span*; reads further back where offsets have gaps.

    Args:
        consumer: Client properties of the cluster.
        tp: The partition, by its name there.
        span: First offset and end offset.
        wanted: The number of records; there may be fewer.
        isolation: Whether aborted and open transactions are left out.
    """
    start, until = span
    width = wanted
    while True:
        begin = max(start, until - width)
        records = read_records(consumer, tp, begin, until, isolation)
        if len(records) >= wanted or begin == start:
            return records[-wanted:]
        width *= 4


def same(upstream: KafkaRecord, downstream: KafkaRecord, timestamps: Timestamps) -> bool:
    """Whether *downstream* is a copy of *upstream*; timestamps count only if they are preserved."""
    same_content = (upstream.key, upstream.value, upstream.headers) == (
        downstream.key,
        downstream.value,
        downstream.headers,
    )
    return same_content and (
        timestamps == "broker" or upstream.timestamp_ms == downstream.timestamp_ms
    )
