"""Comparing records of both sides, where positions alone do not decide.

Three questions: is the end of a counted stretch really the same records; where does the target
agree with the source if not; and where does a target go on that somebody else, MirrorMaker 2 for
one, has written before us.
"""

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.kafka.reader import Record, read_records
from replication.model import Position, TopicPartition
from replication.offsets.alignment import align
from replication.offsets.resume import CountAhead
from replication.offsets.runs import OffsetRun, anchor
from replication.spark.counting import fingerprints

COMPARED_RECORDS = 20
"""Records at the end of a stretch that are compared one by one."""

SEARCHED_RECORDS = 10_000
"""Source records searched for the target's last ones, from their timestamp on."""


def tails_match(
    config: FlowConfig,
    source: tuple[TopicPartition, int, int],
    target: tuple[TopicPartition, CountAhead],
) -> bool:
    """Whether the last records of both stretches are the same, in order.

    Target records that compaction has removed are passed over; those left must fit by offset.

    Args:
        config: The flow.
        source: Partition, first offset and the offset after the last of the counted stretch.
        target: The remote partition and what was counted.
    """
    tp, start, until = source
    remote, counted = target
    compared = min(COMPARED_RECORDS, counted.records)
    end = counted.anchor.downstream + counted.records
    written = read_records(config.target.consumer, remote, end - compared, end, "read_uncommitted")
    upstream = _last_records(config, tp, start, until, compared)
    by_place = dict(enumerate(reversed(upstream), start=1))
    return all(
        (place := end - record.offset) in by_place and _same(config, by_place[place], record)
        for record in written
    )


def realign(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    counted: CountAhead,
    source_end: int,
) -> list[OffsetRun]:
    """Runs up to the last position at which going on loses nothing, an event telling why.

    The last of them is an anchor at the target's log end.
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
        f"{tp}: of {counted.records} records beyond the books on {remote}, {found.matched} are "
        f"the source's next ones and {found.target_only} are not; going on at offset "
        f"{found.upstream}, at least once",
        topic=tp.topic,
        partition=tp.partition,
        offset_from=start.upstream,
        offset_until=found.upstream,
        policy="at least once",
    )
    return [*found.runs, anchor(Position(found.upstream, end))]


def match_existing_target(
    context: FlowContext,
    tp: TopicPartition,
    remote: TopicPartition,
    fresh: Position,
) -> Position:
    """Where to go on in a partition that holds records and has no books.

    The target's newest record that the source still has marks the place; timestamps say where to
    look for it.

    Args:
        context: Both clusters.
        config: The flow.
        tp: Upstream.
        remote: Downstream.
        fresh: Where a start without history would begin; its downstream is the log end.

    Raises:
        GuardError: None of the target's last records is on the source.
    """
    config = context.config
    end = fresh.downstream
    written = read_records(
        config.target.consumer, remote, max(0, end - COMPARED_RECORDS), end, "read_uncommitted"
    )
    if not written:  # retention has emptied the target: nothing can repeat
        return fresh
    for record in reversed(written):
        found = _found_on_source(context, tp, record)
        if found is not None:
            context.tables.record_event(
                config.flow,
                "adopted",
                f"{remote} held records and had no books; its offset {record.offset} is {tp} "
                f"offset {found.offset}, going on behind it",
                topic=tp.topic,
                partition=tp.partition,
                offset_until=found.offset + 1,
                policy="match",
            )
            return Position(found.offset + 1, end)
    raise GuardError(
        f"flow {config.flow}: {remote} on cluster {config.flow.target} holds records up to offset "
        f"{end}, has no books in state.dir, and its last {len(written)} records are not in {tp} "
        f"on cluster {config.flow.source}: somebody else writes to it, or they are gone there. "
        f"Delete the topic to replicate anew, or leave {tp.topic} out with topics.exclude"
    )


def _found_on_source(context: FlowContext, tp: TopicPartition, record: Record) -> Record | None:
    """The source's record that *record* is a copy of, looked for from its timestamp on."""
    config = context.config
    start = context.source.offset_for_time(tp, record.timestamp_ms)
    level = config.isolation
    until = start + SEARCHED_RECORDS
    candidates = read_records(config.source.consumer, tp, start, until, level)
    return next((it for it in candidates if _same(config, it, record)), None)


def _last_records(
    config: FlowConfig, tp: TopicPartition, start: int, until: int, wanted: int
) -> list[Record]:
    """The last *wanted* records before *until*; reaches back further over gaps as needed."""
    width = wanted
    while True:
        begin = max(start, until - width)
        records = read_records(config.source.consumer, tp, begin, until, config.isolation)
        if len(records) >= wanted or begin == start:
            return records[-wanted:]
        width *= 4


def _same(config: FlowConfig, upstream: Record, downstream: Record) -> bool:
    """Whether *downstream* is a copy of *upstream*; without preserved timestamps these differ."""
    same_content = (upstream.key, upstream.value, upstream.headers) == (
        downstream.key,
        downstream.value,
        downstream.headers,
    )
    if config.record_timestamps == "broker":
        return same_content
    return same_content and upstream.timestamp_ms == downstream.timestamp_ms
