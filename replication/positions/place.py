"""Finds where to resume on a target that has records, but no offset map.

Another replicator such as MirrorMaker 2 wrote them, or the tables were lost. The target's last
records are searched in the source. Where copies have timestamps of their originals, these tell
where to search; otherwise a whole sequence of records must be the same, and must occur only once in
the source. What lies before is verified, because a target may have gaps.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import PARTITIONS_AT_ONCE, Reader, chunks
from replication.log import Log
from replication.mm2.wire import stored_position
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.copy_rule import CopyRule, Fingerprint
from replication.offsets.runs import OffsetRun, anchor, runs_between
from replication.positions.flow_clients import FlowClients, sharing
from replication.positions.originals import (
    COMPARED_RECORDS,
    Copies,
    Original,
    Originals,
    Prints,
    compacted_topics,
    fingerprints_at,
    last_fingerprints,
)
from replication.spark.gaps import (
    CopiedPair,
    EqualEnds,
    Logs,
    MissingRecords,
    equal_ends,
    equal_originals,
    missing_records,
    newest_kept,
    overwritten,
)
from replication.topics.topic_plan import copy_rule

log = Log(__name__)

# Verifies that a target without an offset map has all records before the newest one it has.
#
# A mirror leaves gaps: behind a record that the target rejects it may have written others. So that
# the newest record is found in the source says nothing of those before it.

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
    context: FlowClients, placed: Mapping[TopicPartition, Placed]
) -> dict[TopicPartition, Verified]:
    """Returns whether the target has all records of the source up to those that were *placed*.

    The last records are compared in order. Older ones count as copied where records at equal
    distances are equal: the logs have a record at each offset then. Else all are looked up.

    Raises:
        ClusterError: A cluster does not answer.
    """
    if not placed:
        return {}
    ours = context.source.earliest(placed)
    theirs = context.target.earliest({at.remote for at in placed.values()})
    whole = {
        tp: CopiedPair(
            tp,
            at.remote,
            (min(ours.get(tp, 0), at.original), at.original + 1),
            (min(theirs.get(at.remote, 0), at.copy), at.copy + 1),
        )
        for tp, at in placed.items()
    }
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


def _last_of(pair: CopiedPair, most: int) -> CopiedPair:
    originals, copies = (
        (max(start, until - most), until) for start, until in (pair.originals, pair.copies)
    )
    return replace(pair, originals=originals, copies=copies)


def logs_of(context: FlowClients, partitions: Iterable[TopicPartition]) -> Logs:
    """Returns how both clusters are read where records of *partitions* are compared."""
    config = context.config
    return Logs(
        {**config.source.consumer, "isolation.level": config.isolation},
        config.target.consumer,
        copy_rule(config, {tp.topic for tp in partitions}),
        sharing(context),
    )


def _not_dense(
    context: FlowClients, pairs: Collection[CopiedPair], from_first: Collection[TopicPartition]
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
    with Originals(context, rule) as source, Copies(context, rule, "read_committed") as target:
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
    context: FlowClients, pairs: Collection[CopiedPair], from_first: Collection[TopicPartition]
) -> dict[TopicPartition, MissingRecords]:
    if not pairs:
        return {}
    offsets = sum(_width(pair.originals) + _width(pair.copies) for pair in pairs)
    flow, topics = context.config.flow, {pair.remote.topic for pair in pairs}
    log.bind(flow).info("looking_up_all_records", partitions=len(pairs), offsets=offsets)
    compacted = compacted_topics(context.target, topics)
    return missing_records(
        context.spark,
        logs_of(context, (pair.tp for pair in pairs)),
        list(pairs),
        from_first=from_first,
        compacted={pair.tp for pair in pairs if pair.remote.topic in compacted},
    )


def _complete(end: EqualEnds | None, *, is_sampled: bool, is_searched: bool) -> str:
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


# Places copies of compacted topics whose last originals the source has removed since.
#
# That is usual: a key that gets new records loses its old ones within seconds. What the source
# still has of the older copies tells where to resume all the same, as
# `replication.spark.gaps` says.


@dataclass(frozen=True, slots=True)
class Compacted:
    """What is known of copies whose last originals are gone.

    Args:
        placed: The newest record of each copy that the source still has.
        overwritten: Partitions where the source has none of the copies any more, but a newer record
            of each key, and the source's first offset.
    """

    placed: Mapping[TopicPartition, Placed] = field(default_factory=dict)
    overwritten: Mapping[TopicPartition, int] = field(default_factory=dict)


def search_compacted(
    context: FlowClients, remotes: Mapping[TopicPartition, TopicPartition]
) -> Compacted:
    """Searches the source for any record of *remotes*, which are given by upstream partition.

    Topics that the source does not compact are left out: that it lacks the last records of those
    says that somebody else wrote them, or that it has lost more than these.
    """
    compacted = compacted_topics(context.source, {tp.topic for tp in remotes})
    wanted = {tp: remote for tp, remote in remotes.items() if tp.topic in compacted}
    if not wanted:
        return Compacted()
    pairs = {pair.tp: pair for pair in _pairs(context, wanted)}
    spans = [span for pair in pairs.values() for span in (pair.originals, pair.copies)]
    offsets = sum(until - start for start, until in spans)
    flow = context.config.flow
    log.bind(flow).info("searching_compacted", partitions=len(pairs), offsets=offsets)
    logs = logs_of(context, wanted)
    kept = newest_kept(context.spark, logs, list(pairs.values()))
    rest = [pair for tp, pair in pairs.items() if tp not in kept]
    gone = overwritten(context.spark, logs, rest) if rest else set()
    return Compacted(
        {
            tp: Placed(wanted[tp], copy, original, newer)
            for tp, (copy, original, newer) in kept.items()
        },
        {tp: pairs[tp].originals[0] for tp in gone},
    )


def _pairs(
    context: FlowClients, remotes: Mapping[TopicPartition, TopicPartition]
) -> list[CopiedPair]:
    source, target = context.source, context.target
    ours = _spans(source.earliest(remotes), source.log_ends(remotes, context.config.isolation))
    copies = set(remotes.values())
    theirs = _spans(target.earliest(copies), target.log_ends(copies, "read_committed"))
    return [
        CopiedPair(tp, remote, ours[tp], theirs[remote])
        for tp, remote in remotes.items()
        if tp in ours and remote in theirs
    ]


def _spans(
    earliest: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    return {tp: (min(first, ends[tp]), ends[tp]) for tp, first in earliest.items() if tp in ends}


SEARCHED_RECORDS = 10_000
"""The number of source records, from a target record's timestamp on, that are searched for it."""

MOST_CANDIDATES = 100
"""Equal records in the source around which sequences are compared; more are ambiguous."""


@dataclass(frozen=True, slots=True)
class Match:
    """Resume at *position*, which the target's records give; *text* says how.

    Args:
        position: Where to resume.
        text: For an operator.
        has_gap: Whether the target may have records of the source behind the position.
        is_emptied: Whether the target holds no record any more, so that it tells nothing.
        is_taken_over: Whether it is MirrorMaker 2 that has stored the position.
    """

    position: Position
    text: str
    has_gap: bool = False
    is_emptied: bool = False
    is_taken_over: bool = False

    def events(self, tp: TopicPartition) -> list[NewEvent]:
        """Returns an event for *tp*."""
        columns = {**tp._asdict(), "offset_until": self.position.upstream}
        event = NewEvent("adopted", self.text, "match", columns)
        return [replace(event, reaction="at least once") if self.has_gap else event]

    def new_runs(self, known: Position | None) -> list[OffsetRun]:
        """Returns what this adds to a map that ends at *known*; None if the map begins here."""
        if known is None or self.has_gap:
            return [anchor(self.position)]
        return runs_between(known, self.position)


@dataclass(frozen=True, slots=True)
class Existing:
    """A remote partition that has records, but no offset map.

    Args:
        remote: The remote partition.
        fresh: Where a start without history would begin; its downstream is the log end.
    """

    remote: TopicPartition
    fresh: Position


Place = tuple[Fingerprint, int]
"""A record on the target, and its original's offset on the source."""


def match_existing_targets(
    context: FlowClients, existing: Mapping[TopicPartition, Existing]
) -> dict[TopicPartition, Match | GuardError]:
    """Finds where to resume in partitions that have records but no offset map.

    Records of aborted and open transactions on the target are passed over: an exactly-once
    replicator takes them back.

    An error is given where the source has none of the last records, or has them more than once.
    """
    found: dict[TopicPartition, Match | GuardError] = {}
    if not existing:
        return found
    config = context.config
    placed: dict[TopicPartition, Placed] = {}
    rule = copy_rule(config, {tp.topic for tp in existing})
    with Originals(context, rule) as source, Copies(context, rule, "read_committed") as target:
        search = _Search(context, source, rule)
        for some in chunks(existing.items(), PARTITIONS_AT_ONCE):
            for tp, place in _place(search, target, dict(some)).items():
                if isinstance(place, Placed):
                    placed[tp] = place
                else:
                    found[tp] = place
    left = {tp: existing[tp].remote for tp, at in found.items() if isinstance(at, GuardError)}
    compacted = search_compacted(context, left) if left else Compacted()
    placed.update(compacted.placed)
    for tp, first in compacted.overwritten.items():
        found[tp] = _overwritten(config.flow, tp, existing[tp], first)
    for tp, verified in verify(context, placed).items():
        found[tp] = _match(tp, existing[tp], placed[tp], verified)
    return found


def _place(
    search: "_Search", target: Prints, existing: Mapping[TopicPartition, Existing]
) -> dict[TopicPartition, Placed | Match | GuardError]:
    cluster, config = search.context.target, search.context.config
    remotes = {own.remote for own in existing.values()}
    starts, ends = cluster.earliest(remotes), cluster.log_ends(remotes, "read_committed")
    spans = {remote: (starts.get(remote, 0), ends.get(remote, 0)) for remote in remotes}
    counts = dict.fromkeys(remotes, COMPARED_RECORDS)
    last = last_fingerprints(target, spans, counts)
    written = {tp: last[own.remote] for tp, own in existing.items() if last[own.remote]}
    emptied = existing.keys() - written.keys()
    source_ends = search.context.source.log_ends(emptied, config.isolation)
    places = search.by_time(written)
    found: dict[TopicPartition, Placed | Match | GuardError] = {}
    for tp, own in existing.items():
        if tp not in written:
            end = source_ends.get(tp, own.fresh.upstream)
            text = describe_emptied(config.flow, tp, own.remote, own.fresh, end)
            found[tp] = Match(own.fresh, text, has_gap=True, is_emptied=True)
            continue
        place = places.get(tp) or search.by_sequence(tp, own.remote, written[tp])
        if place is None:
            found[tp] = GuardError(
                f"{own.remote} on cluster {config.flow.target} has records up to offset "
                f"{own.fresh.downstream} but no offset map in state.dir, and none of its last "
                f"{len(written[tp])} records was found in {tp} on cluster {config.flow.source}: "
                "another producer wrote them, they were changed on their way, or the source no "
                "longer has them"
            )
        elif isinstance(place, GuardError):
            found[tp] = place
        else:
            newer = sum(one.offset > place[0].offset for one in written[tp])
            found[tp] = Placed(own.remote, place[0].offset, place[1], newer)
    return found


def describe_emptied(
    flow: Flow, tp: TopicPartition, remote: TopicPartition, fresh: Position, end: int
) -> str:
    """Describes a start at *fresh* for an operator, for the source's log ends at *end*.

    The target was written up to there, and no record of it is left.
    """
    return (
        f"{remote} on cluster {flow.target} was written up to offset {fresh.downstream}, but has "
        "no record any more: retention has deleted them, or they were of aborted transactions. "
        f"state.dir does not say what they were. {tp} is copied from offset {fresh.upstream} on: "
        f"of its records up to offset {end} those that were there are copied a second time"
    )


def _overwritten(flow: Flow, tp: TopicPartition, own: Existing, first: int) -> Match:
    """Returns what follows if the source has newer records of just the keys of the target.

    It has one of each key of the target, and no other.
    """
    return Match(
        Position(first, own.fresh.downstream),
        f"{own.remote} has records but no offset map; {tp} has none of them any more, but a newer "
        f"one of each of their keys, so that compaction has removed them. What {flow.source} has "
        f"was not copied yet: {tp} is copied from its first offset {first} on",
    )


def _match(tp: TopicPartition, own: Existing, at: Placed, verified: Verified) -> Match:
    text = (
        f"{own.remote} has records but no offset map; its offset {at.copy} is {tp} offset "
        f"{at.original}"
    )
    missing, end = verified.missing, own.fresh.downstream
    if missing is None:
        position = Position(at.original + 1, end)
        newer = f"; {at.newer} newer ones are not the source's next ones" if at.newer else ""
        text = f"{text}, and {verified.text}, resuming after it{newer}"
        return Match(position, text, has_gap=at.newer > 0)
    return Match(
        Position(missing.first, end),
        f"{text}, but {verified.text}: resuming there, and records behind it are copied again",
        has_gap=True,
    )


class _Search:
    """Searches the source for records of the target."""

    def __init__(self, context: FlowClients, source: Originals, rule: CopyRule) -> None:
        self.context = context
        self._source = source
        self.rule = rule

    def by_time(
        self, written: Mapping[TopicPartition, list[Fingerprint]]
    ) -> dict[TopicPartition, Place]:
        """Returns the newest of the records that the source has, and its offset there.

        It is searched from its timestamp on. Of equal records the first one counts, so that none is
        passed over. Partitions without one on the source are absent, as are those whose records
        have no times of their own.
        """
        cluster, found = self.context.source, dict[TopicPartition, Place]()
        left = {
            tp: timed
            for tp, records in written.items()
            if (timed := [one for one in records if one.time_ms is not None])
        }
        ends = cluster.log_ends(left, self.context.config.isolation)
        while left:
            newest = {tp: records.pop() for tp, records in left.items()}
            times = {tp: one.time_ms for tp, one in newest.items() if one.time_ms is not None}
            starts = cluster.offsets_for_time(times)
            spans = {
                tp: (start, min(start + SEARCHED_RECORDS, ends.get(tp, 0)))
                for tp, start in starts.items()
            }
            self._source.visit(spans, partial(_take_equal, newest, found))
            left = {tp: records for tp, records in left.items() if records and tp not in found}
        return self._followed(found, written, ends)

    def _followed(
        self,
        found: Mapping[TopicPartition, Place],
        written: Mapping[TopicPartition, list[Fingerprint]],
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, Place]:
        """Returns the places *found*, moved on while the next records of both sides are equal.

        A newer record whose original has no timestamp cannot be searched by its own.
        """
        places = dict(found)
        left = {
            tp: deque(one for one in written[tp] if one.offset > record.offset)
            for tp, (record, _) in found.items()
        }

        def follow(tp: TopicPartition, one: Original) -> bool:
            if not left[tp] or not one.equals(left[tp][0]):
                return True
            places[tp] = left[tp].popleft(), one.offset
            return not left[tp]

        starts = {tp: offset + 1 for tp, (_, offset) in found.items() if left[tp]}
        spans = {
            tp: (start, min(start + SEARCHED_RECORDS, ends.get(tp, 0)))
            for tp, start in starts.items()
        }
        self._source.visit(spans, follow)
        return places

    def by_sequence(
        self, tp: TopicPartition, remote: TopicPartition, written: list[Fingerprint]
    ) -> Place | GuardError | None:
        """Finds the newest record that the source has only once after the same ones."""
        context, config = self.context, self.context.config
        places = equal_originals(
            context.spark,
            (config.source.consumer, tp),
            (config.target.consumer, remote),
            (written[0].offset, written[-1].offset + 1),
            self.rule,
            most=MOST_CANDIDATES,
        )
        for last in range(len(written) - 1, -1, -1):
            record = written[last]
            equal = places[record.offset]
            offsets = [
                offset for offset in equal.offsets if self._ends_at(tp, offset, written[: last + 1])
            ]
            if len(offsets) > 1 or len(equal.offsets) < equal.records:
                return GuardError(
                    f"{remote} on cluster {config.flow.target} has records but no offset map in "
                    f"state.dir, and {tp} on cluster {config.flow.source} has its last records "
                    "more than once. Without their timestamps it is unknown which of them were "
                    "copied"
                )
            if offsets:
                return record, offsets[0]
        return None

    def _ends_at(self, tp: TopicPartition, offset: int, written: list[Fingerprint]) -> bool:
        """Returns whether *written* is in the source, record by record, up to *offset*.

        The source may have lost the first ones by retention.
        """
        span, count = {tp: (0, offset + 1)}, {tp: len(written)}
        upstream = last_fingerprints(self._source, span, count)[tp]
        pairs = zip(reversed(upstream), reversed(written), strict=False)
        return bool(upstream) and all(ours.equals(theirs) for ours, theirs in pairs)


def _take_equal(
    wanted: Mapping[TopicPartition, Fingerprint],
    found: dict[TopicPartition, Place],
    tp: TopicPartition,
    one: Original,
) -> bool:
    """Takes *one* if it is the one wanted of its partition: adds it to *found*."""
    is_equal = one.time_ms is not None and one.equals(wanted[tp])
    if is_equal:
        found[tp] = (wanted[tp], one.offset)
    return is_equal


# Takes over the positions that MirrorMaker 2 has stored on the target.
#
# They are older than what it has copied, by a minute at most after a crash, so they count only
# where the records on the target do not tell where to resume.


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Where MirrorMaker 2 would have gone on.

    Args:
        found: By upstream partition; partitions that it does not name are absent.
        warnings: Why a position, or all of them, cannot be used, one line each.
    """

    found: Mapping[TopicPartition, Match] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def take_over(
    config: FlowConfig, clusters: tuple[Cluster, Cluster], ends: Mapping[TopicPartition, int]
) -> TakenOver:
    """Finds where MirrorMaker 2 would have gone on in the partitions of *ends*."""
    source, target = clusters
    topic, flow = config.takeover_topic, config.flow
    if not topic or not ends:
        return TakenOver()
    positions = read_positions(config, target)
    if positions is None:
        text = f"{flow.target} shows no topic {topic}: no position of MirrorMaker 2 is taken over"
        return TakenOver(warnings=(text,))
    earliest = source.earliest(ends.keys() & positions.keys())
    log_ends = source.log_ends(earliest, config.isolation)
    found: dict[TopicPartition, Match] = {}
    warnings = []
    for tp, first in sorted(earliest.items()):
        following = positions[tp]
        if first <= following <= log_ends.get(tp, 0):
            found[tp] = Match(
                Position(following, ends[tp]),
                f"according to {topic}, MirrorMaker 2 copied {tp} up to offset {following - 1}; "
                "resuming after it",
                is_taken_over=True,
            )
        else:
            end = log_ends.get(tp, first)
            warnings.append(
                f"according to {topic}, MirrorMaker 2 copied {tp} up to offset {following - 1}, "
                f"but {flow.source} has offsets {first} to {end}: not taken over"
            )
    return TakenOver(found, tuple(warnings))


def advice(config: FlowConfig, tp: TopicPartition) -> str:
    """Advises an operator where the target's records do not tell where to resume *tp*."""
    flow, topic = config.flow, config.takeover_topic
    if topic:
        return f"{topic}, replication.takeover.topic, has no place of {tp} that can be used either"
    return (
        "If MirrorMaker 2 wrote them, write replication.takeover.topic, the name of the topic on "
        f"{flow.target} with its positions, such as mm2-offsets.{flow.source}.internal or a "
        "Connect cluster's offset.storage.topic: it gives the exact place"
    )


def read_positions(config: FlowConfig, target: Cluster) -> dict[TopicPartition, int] | None:
    """Reads the next offset of each partition of the source, as MirrorMaker 2 has stored it.

    None if the topic of the positions does not exist.
    """
    topic = config.takeover_topic
    described = target.describe([topic])
    if topic not in described:
        return None
    partitions = [TopicPartition(topic, number) for number in range(described[topic].partitions)]
    starts = target.earliest(partitions)
    ends = target.log_ends(partitions, "read_committed")
    positions: dict[TopicPartition, int] = {}

    def take(_: TopicPartition, record: KafkaRecord) -> bool:
        found = stored_position(config.flow.source, record.key, record.value)
        if found is not None:
            tp, following = found
            if following is None:
                positions.pop(tp, None)
            else:
                positions[tp] = following
        return False

    with Reader(config.target.consumer, "read_committed") as reader:
        reader.visit({tp: (starts.get(tp, 0), ends.get(tp, 0)) for tp in partitions}, take)
    return positions
