"""Finds where to resume on a target that has records, but no offset map.

Another replicator such as MirrorMaker 2 wrote them, or the tables were lost. The target's last
records are searched in the source. Where timestamps are preserved they tell where to search;
otherwise a whole sequence of records must be the same, and must occur only once in the source.
"""

from dataclasses import dataclass

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.match import COMPARED_RECORDS, last_records, same
from replication.kafka.reader import KafkaRecord, read_records
from replication.model import Position, Timestamps, TopicPartition
from replication.spark.counting import equal_records

SEARCHED_RECORDS = 10_000
"""The number of source records, from a target record's timestamp on, that are searched for it."""

MOST_CANDIDATES = 100
"""Equal records in the source around which sequences are compared; more are ambiguous."""


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
    timestamps: Timestamps,
) -> Match:
    """Finds where to resume in a partition that has records but no offset map.

    Records of aborted and open transactions on the target are passed over: an exactly-once
    replicator takes them back.

    Args:
        context: The flow.
        tp: The upstream partition.
        remote: The remote partition.
        fresh: Where a start without history would begin; its downstream is the log end.
        timestamps: Whether the copies have the timestamps of their originals.

    Raises:
        GuardError: The source has none of the target's last records, or has them more than once.
    """
    config, end = context.config, fresh.downstream
    written = last_records(
        config.target.consumer, remote, (0, end), COMPARED_RECORDS, "read_committed"
    )
    if not written:  # retention has emptied the target, so nothing can be repeated
        return Match(fresh)
    find = _by_time if timestamps == "preserve" else _by_sequence
    found = find(context, tp, remote, written)
    if found is None:
        raise GuardError(
            f"{remote} on cluster {config.flow.target} has records up to offset {end} but no "
            f"offset map in state.dir, and none of its last {len(written)} records was found in "
            f"{tp} on cluster {config.flow.source}: another producer wrote them, or the source no "
            "longer has them"
        )
    record, offset = found
    return Match(
        Position(offset + 1, end),
        f"{remote} has records but no offset map; its offset {record.offset} is {tp} offset "
        f"{offset}, resuming after it",
    )


def _by_time(
    context: FlowContext, tp: TopicPartition, _remote: TopicPartition, written: list[KafkaRecord]
) -> tuple[KafkaRecord, int] | None:
    """The newest of *written* that the source has, and its offset there.

    It is searched from its timestamp on. Of equal records the first one counts, so that none is
    passed over.
    """
    config = context.config
    for record in reversed(written):
        start = context.source.offset_for_time(tp, record.timestamp_ms)
        until = start + SEARCHED_RECORDS
        for found in read_records(config.source.consumer, tp, start, until, config.isolation):
            if same(found, record, "preserve"):
                return record, found.offset
    return None


def _by_sequence(
    context: FlowContext, tp: TopicPartition, remote: TopicPartition, written: list[KafkaRecord]
) -> tuple[KafkaRecord, int] | None:
    """The newest of *written* that ends a sequence of the source, and its offset there.

    Raises:
        GuardError: The sequence occurs more than once.
    """
    config = context.config
    places = equal_records(
        context.spark,
        (config.source.consumer, tp),
        (config.target.consumer, remote),
        (written[0].offset, written[-1].offset + 1),
        most=MOST_CANDIDATES,
    )
    for last in range(len(written) - 1, -1, -1):
        record = written[last]
        equal = places[record.offset]
        offsets = [
            offset for offset in equal.offsets if _ends_at(context, tp, offset, written[: last + 1])
        ]
        if len(offsets) > 1 or len(equal.offsets) < equal.records:
            raise GuardError(
                f"{remote} on cluster {config.flow.target} has records but no offset map in "
                f"state.dir, and {tp} on cluster {config.flow.source} has its last records more "
                "than once. Without their timestamps it is unknown which of them were copied"
            )
        if offsets:
            return record, offsets[0]
    return None


def _ends_at(
    context: FlowContext, tp: TopicPartition, offset: int, written: list[KafkaRecord]
) -> bool:
    """Whether *written* is in the source, record by record, up to *offset*.

    The source may have lost the first ones by retention.
    """
    config = context.config
    upstream = last_records(
        config.source.consumer, tp, (0, offset + 1), len(written), config.isolation
    )
    pairs = zip(reversed(upstream), reversed(written), strict=False)
    return bool(upstream) and all(same(ours, theirs, "broker") for ours, theirs in pairs)
