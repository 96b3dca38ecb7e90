"""Verifies that a target without an offset map has all records before the newest one it has.

A mirror leaves gaps: behind a record that the target rejects it may have written others. So that
the newest record is found in the source says nothing of those before it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.model import TopicPartition
from replication.positions.originals import Copies, Originals
from replication.positions.sides import FlowSides, sharing
from replication.positions.tails import fingerprints_at
from replication.spark.gaps import (
    CopiedPair,
    EqualEnds,
    Logs,
    MissingRecords,
    equal_ends,
    missing_records,
)
from replication.topics.copy_rule import copy_rule

log = Log(__name__)

COMPARED_OFFSETS: Final = 5_000_000
"""Offsets whose records are compared one by one at each start, shared among the partitions."""

MOST_OF_PARTITION: Final = 100_000
LEAST_OF_PARTITION: Final = 1_000


@dataclass(frozen=True, slots=True)
class Placed:
    """The newest record of a remote partition that the source has.

    Args:
        remote: The remote partition.
        copy: The record's offset there.
        original: Its offset on the source.
        newer: How many newer records of the last ones there are not the source's next ones.
    """

    remote: TopicPartition
    copy: int
    original: int
    newer: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found before a `Placed` record.

    Args:
        text: The same for an operator.
        missing: The records of the source that the target lacks; None if it has all of them.
    """

    text: str
    missing: MissingRecords | None = None


def verify(
    context: FlowSides, placed: Mapping[TopicPartition, Placed]
) -> dict[TopicPartition, Verified]:
    """Returns whether the target has all records of the source up to those that were *placed*.

    The last records are compared in order. Older ones count as copied where records at equal
    distances are equal: the logs have a record at each offset then. Else all are looked up.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if not placed:
        return {}
    whole = _whole(context, placed)
    most = max(LEAST_OF_PARTITION, min(MOST_OF_PARTITION, COMPARED_OFFSETS // len(whole)))
    last = {tp: _last_of(pair, most) for tp, pair in whole.items()}
    # nothing was deleted there, and the first record was to be copied as well
    is_earliest = context.config.auto_offset_reset == "earliest"
    from_first = {tp for tp, pair in whole.items() if is_earliest and pair.copies[0] == 0}
    ends = equal_ends(context.spark, logs_of(context, whole), list(last.values()))
    long = {tp for tp, pair in whole.items() if pair != last[tp]}
    doubtful = {
        tp
        for tp in whole
        if tp not in ends or ends[tp].differ or (ends[tp].older and tp in from_first - long)
    }
    sampled = long - doubtful
    doubtful |= _not_dense(context, [whole[tp] for tp in sampled], from_first)
    lacked = _lacked(context, [whole[tp] for tp in doubtful], from_first)
    return {
        tp: _incomplete(lacked[tp])
        if tp in lacked
        else Verified(_complete(ends.get(tp), is_sampled=tp in sampled, is_searched=tp in doubtful))
        for tp in placed
    }


def _whole(
    context: FlowSides, placed: Mapping[TopicPartition, Placed]
) -> dict[TopicPartition, CopiedPair]:
    """Returns all that both sides still have, up to the placed records."""
    ours = context.source.earliest(placed)
    theirs = context.target.earliest({at.remote for at in placed.values()})
    return {
        tp: CopiedPair(
            tp,
            at.remote,
            (min(ours.get(tp, 0), at.original), at.original + 1),
            (min(theirs.get(at.remote, 0), at.copy), at.copy + 1),
        )
        for tp, at in placed.items()
    }


def _last_of(pair: CopiedPair, most: int) -> CopiedPair:
    originals, copies = (
        (max(start, until - most), until) for start, until in (pair.originals, pair.copies)
    )
    return replace(pair, originals=originals, copies=copies)


def logs_of(context: FlowSides, partitions: Iterable[TopicPartition]) -> Logs:
    """Returns how both clusters are read where records of *partitions* are compared."""
    config = context.config
    return Logs(
        {**config.source.consumer, "isolation.level": config.isolation},
        config.target.consumer,
        copy_rule(config, {tp.topic for tp in partitions}),
        sharing(context),
    )


def _not_dense(
    context: FlowSides, pairs: Collection[CopiedPair], from_first: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Returns those *pairs* whose records at equal distances from the end are not all equal."""
    if not pairs:
        return set()
    rule = copy_rule(context.config, {pair.tp.topic for pair in pairs})
    found = {
        pair.tp
        for pair in pairs
        if pair.tp in from_first and _width(pair.originals) > _width(pair.copies)
    }
    with (
        Originals(context, rule) as source,
        Copies(context, rule, "read_committed") as target,
    ):
        left = {pair: _distances(pair) for pair in pairs if pair.tp not in found}
        while left:
            at = {pair: distance for pair, own in left.items() if (distance := next(own, None))}
            left = {pair: left[pair] for pair in at}
            ours = {pair.tp: pair.originals[1] - distance for pair, distance in at.items()}
            theirs = {pair.remote: pair.copies[1] - distance for pair, distance in at.items()}
            originals = fingerprints_at(source, ours)
            copies = fingerprints_at(target, theirs)
            for pair in at:
                one, other = originals.get(pair.tp), copies.get(pair.remote)
                if one is None or other is None or not one.equals(other):
                    found.add(pair.tp)
                    del left[pair]
    return found


def _distances(pair: CopiedPair) -> Iterator[int]:
    """Yields distances from the end: powers of two, and that at which the shorter side begins."""
    longest = min(_width(pair.originals), _width(pair.copies))
    distance = 1
    while distance < longest:
        yield distance
        distance *= 2
    yield longest


def _width(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _lacked(
    context: FlowSides, pairs: Collection[CopiedPair], from_first: Collection[TopicPartition]
) -> dict[TopicPartition, MissingRecords]:
    if not pairs:
        return {}
    offsets = sum(_width(pair.originals) + _width(pair.copies) for pair in pairs)
    flow, topics = context.config.flow, {pair.remote.topic for pair in pairs}
    log.bind(flow).info("looking_up_all_records", partitions=len(pairs), offsets=offsets)
    settings = Rejections().call(context.target.topic_config, topics)
    policies = {name: own.get("cleanup.policy") for name, own in settings.items()}
    compacted = {name for name, own in policies.items() if own and "compact" in (own.value or "")}
    return missing_records(
        context.spark,
        logs_of(context, (pair.tp for pair in pairs)),
        list(pairs),
        from_first=from_first,
        compacted={pair.tp for pair in pairs if pair.remote.topic in compacted},
    )


def _complete(end: EqualEnds | None, *, is_sampled: bool, is_searched: bool) -> str:
    """Returns what was compared, where nothing is missing."""
    if is_searched or end is None:
        return "all records before it are there as well"
    if end.records == 1:
        return "no record before it is on both sides"
    compared = f"the records before it are there in the same order ({end.records - 1} compared)"
    return f"{compared}, and older ones were sampled" if is_sampled else compared


def _incomplete(missing: MissingRecords) -> Verified:
    if missing.records == 1:
        return Verified(f"the record before it at offset {missing.first} is not there", missing)
    text = (
        f"{missing.records} records before it are not there, the first one of which has offset "
        f"{missing.first}"
    )
    return Verified(text, missing)
