"""Compares records when offsets alone are not conclusive.

Answers three questions. Are the last records of a counted span the same on both sides? If not, up
to which record do both sides agree? Where does replication resume on a target that another
replicator, such as MirrorMaker 2, has written?
"""

from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.kafka.reader import KafkaRecord, read_records
from replication.model import Position, TopicPartition
from replication.offsets.alignment import align
from replication.offsets.resume import CountAhead
from replication.offsets.runs import OffsetRun, anchor
from replication.spark.counting import fingerprints

COMPARED_RECORDS = 20
"""The number of records at the end of a span that are compared one by one."""

SEARCHED_RECORDS = 10_000
"""The number of source records, from a target record's timestamp on, that are searched for it."""


def tails_match(
    config: FlowConfig,
    source: tuple[TopicPartition, int, int],
    target: tuple[TopicPartition, CountAhead],
) -> bool:
    """Whether the last records of both spans are the same, in order.

    Target records that compaction has removed are skipped; the others must match by offset.

    Args:
        config: The flow.
        source: Partition, first offset and end offset of the counted span.
        target: The remote partition and the count.
    """
    tp, start, until = source
    remote, counted = target
    compared = min(COMPARED_RECORDS, counted.records)
    end = counted.anchor.downstream + counted.records
    written = read_records(config.target.consumer, remote, end - compared, end, "read_uncommitted")
    upstream = _last_records(config, tp, start, until, compared)
    from_end = dict(enumerate(reversed(upstream), start=1))
    return all(
        (place := end - record.offset) in from_end and _same(config, from_end[place], record)
        for record in written
    )


def realign(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    source_end: int,
) -> list[OffsetRun]:
    """Finds the runs on which both sides agree, and records an event with the reason.

    The last run is an anchor at the target's log end, at which resuming loses nothing.
    """
    config = context.config
    start = counted.anchor
    end = start.downstream + counted.records
    spark, stamps = context.spark, config.record_timestamps
    source = fingerprints(spark, config.source.consumer, tp, (start.upstream, source_end), stamps)
    target = fingerprints(spark, config.target.consumer, remote, (start.downstream, end), stamps)
    found = align(source, target, source_end=source_end)
    context.tables.record_event(
        config.flow,
        "realigned",
        f"{found.matched} of {counted.records} unrecorded records on {remote} match the source, "
        f"{found.target_only} do not; resuming {tp} at offset {found.upstream}, at-least-once",
        topic=tp.topic,
        partition=tp.partition,
        offset_from=start.upstream,
        offset_until=found.upstream,
        policy="at least once",
    )
    return [*found.runs, anchor(Position(found.upstream, end))]


@dataclass(frozen=True, slots=True)
class Match:
    """Resume at *position*, which the target's last records give; *text* says how.

    ``text`` is empty where the target holds no record any more, so that nothing can be repeated.
    """

    position: Position
    text: str = ""

    def record(self, context: FlowContext, tp: TopicPartition) -> None:
        """Records an event for *tp*, if records were compared."""
        if self.text:
            context.tables.record_event(
                context.config.flow,
                "adopted",
                self.text,
                topic=tp.topic,
                partition=tp.partition,
                offset_until=self.position.upstream,
                policy="match",
            )


def match_existing_target(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    fresh: Position,
) -> Match:
    """Finds where to resume in a partition that has records but no offset map.

    Replication resumes after the target's newest record that the source still has. Timestamps tell
    where to search for it.

    Args:
        context: The flow.
        tp: The upstream partition.
        remote: The remote partition.
        fresh: Where a start without history would begin; its downstream is the log end.

    Raises:
        GuardError: The source has none of the target's last records.
    """
    config = context.config
    end = fresh.downstream
    written = read_records(
        config.target.consumer, remote, max(0, end - COMPARED_RECORDS), end, "read_uncommitted"
    )
    if not written:  # retention has emptied the target, so nothing can be repeated
        return Match(fresh)
    for record in reversed(written):
        found = _found_on_source(context, tp, record)
        if found is not None:
            return Match(
                Position(found.offset + 1, end),
                f"{remote} has records but no offset map; its offset {record.offset} is {tp} "
                f"offset {found.offset}, resuming after it",
            )
    raise GuardError(
        f"{remote} on cluster {config.flow.target} has records up to offset "
        f"{end} but no offset map in state.dir, and none of its last {len(written)} records was "
        f"found in {tp} on cluster {config.flow.source}: another producer wrote them, or the "
        f"source no longer has them"
    )


def _found_on_source(
    context: FlowContext, tp: TopicPartition, record: KafkaRecord
) -> KafkaRecord | None:
    """The source record that *record* is a copy of, searched from its timestamp on; or None."""
    config = context.config
    start = context.source.offset_for_time(tp, record.timestamp_ms)
    until = start + SEARCHED_RECORDS
    candidates = read_records(config.source.consumer, tp, start, until, config.isolation)
    return next((found for found in candidates if _same(config, found, record)), None)


def _last_records(
    config: FlowConfig, tp: TopicPartition, start: int, until: int, wanted: int
) -> list[KafkaRecord]:
    """The last *wanted* records before *until*; reads further back where offsets have gaps."""
    width = wanted
    while True:
        begin = max(start, until - width)
        records = read_records(config.source.consumer, tp, begin, until, config.isolation)
        if len(records) >= wanted or begin == start:
            return records[-wanted:]
        width *= 4


def _same(config: FlowConfig, upstream: KafkaRecord, downstream: KafkaRecord) -> bool:
    """Whether *downstream* is a copy of *upstream*; timestamps count only if they are preserved."""
    same_content = (upstream.key, upstream.value, upstream.headers) == (
        downstream.key,
        downstream.value,
        downstream.headers,
    )
    if config.record_timestamps == "broker":
        return same_content
    return same_content and upstream.timestamp_ms == downstream.timestamp_ms
