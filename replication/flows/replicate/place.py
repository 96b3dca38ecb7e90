"""Finds where to resume on a target that has records, but no offset map.

Another replicator such as MirrorMaker 2 wrote them, or the tables were lost. The target's last
records are searched in the source. Where timestamps are preserved they tell where to search;
otherwise a whole sequence of records must be the same, and must occur only once in the source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.tails import (
    COMPARED_RECORDS,
    Fingerprint,
    fingerprint,
    last_fingerprints,
)
from replication.kafka.reader import PARTITIONS_AT_ONCE, KafkaRecord, Reader, chunks
from replication.model import Flow, NewEvent, Position, Timestamps, TopicPartition
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

    def events(self, tp: TopicPartition) -> list[NewEvent]:
        """An event for *tp*, if records were compared."""
        if not self.text:
            return []
        columns = {**tp._asdict(), "offset_until": self.position.upstream}
        return [NewEvent("adopted", self.text, "match", columns)]


@dataclass(frozen=True, slots=True)
class Existing:
    """A remote partition that has records, but no offset map.

    Args:
        remote: The remote partition.
        fresh: Where a start without history would begin; its downstream is the log end.
        timestamps: Whether the copies have the timestamps of their originals.
    """

    remote: TopicPartition
    fresh: Position
    timestamps: Timestamps


Place = tuple[Fingerprint, int]
"""A record on the target, and its original's offset on the source."""


def match_existing_targets(
    context: FlowContext, existing: Mapping[TopicPartition, Existing]
) -> dict[TopicPartition, Match | GuardError]:
    """Finds where to resume in partitions that have records but no offset map.

    Records of aborted and open transactions on the target are passed over: an exactly-once
    replicator takes them back.

    Returns:
        By upstream partition. An error if the source has none of the target's last records, or has
        them more than once.

    Raises:
        ClusterError: A cluster does not answer.
    """
    found: dict[TopicPartition, Match | GuardError] = {}
    if not existing:
        return found
    config = context.config
    with (
        Reader(config.source.consumer, config.isolation) as source,
        Reader(config.target.consumer, "read_committed") as target,
    ):
        search = _Search(context, source)
        for some in chunks(existing.items(), PARTITIONS_AT_ONCE):
            found |= _match(search, target, dict(some))
    return found


def _match(
    search: "_Search", target: Reader, existing: Mapping[TopicPartition, Existing]
) -> dict[TopicPartition, Match | GuardError]:
    cluster, flow = search.context.target, search.context.config.flow
    remotes = {it.remote: it.timestamps for it in existing.values()}
    starts, ends = cluster.earliest(remotes), cluster.log_ends(remotes, "read_committed")
    spans = {remote: (starts.get(remote, 0), ends.get(remote, 0)) for remote in remotes}
    counts = dict.fromkeys(remotes, COMPARED_RECORDS)
    last = last_fingerprints(target, spans, counts, remotes)
    written = {tp: last[it.remote] for tp, it in existing.items() if last[it.remote]}
    # where there is none, retention has emptied the target, so nothing can be repeated
    found: dict[TopicPartition, Match | GuardError] = {
        tp: Match(it.fresh) for tp, it in existing.items() if tp not in written
    }
    by_time = {tp: own for tp, own in written.items() if existing[tp].timestamps == "preserve"}
    places: dict[TopicPartition, Place | GuardError | None] = {**search.by_time(by_time)}
    for tp in written.keys() - by_time.keys():
        places[tp] = search.by_sequence(tp, existing[tp].remote, written[tp])
    for tp, records in written.items():
        found[tp] = _answer(flow, tp, existing[tp], records, places.get(tp))
    return found


def _answer(
    flow: Flow,
    tp: TopicPartition,
    own: Existing,
    written: list[Fingerprint],
    place: Place | GuardError | None,
) -> Match | GuardError:
    """What follows from the *place* of the records that were *written* to the remote partition."""
    end = own.fresh.downstream
    if isinstance(place, GuardError):
        return place
    if place is None:
        return GuardError(
            f"{own.remote} on cluster {flow.target} has records up to offset {end} but no offset "
            f"map in state.dir, and none of its last {len(written)} records was found in {tp} on "
            f"cluster {flow.source}: another producer wrote them, or the source no longer has them"
        )
    record, offset = place
    return Match(
        Position(offset + 1, end),
        f"{own.remote} has records but no offset map; its offset {record.offset} is {tp} offset "
        f"{offset}, resuming after it",
    )


class _Search:
    """Searches the source for records of the target."""

    def __init__(self, context: FlowContext, source: Reader) -> None:
        self.context, self._source = context, source

    def by_time(
        self, written: Mapping[TopicPartition, list[Fingerprint]]
    ) -> dict[TopicPartition, Place]:
        """The newest of the records that the source has, and its offset there.

        It is searched from its timestamp on. Of equal records the first one counts, so that none is
        passed over. Partitions of which the source has none are absent.
        """
        cluster, found = self.context.source, dict[TopicPartition, Place]()
        left = {tp: list(records) for tp, records in written.items()}
        ends = cluster.log_ends(left, self.context.config.isolation)
        while left:
            newest = {tp: records.pop() for tp, records in left.items()}

            starts = cluster.offsets_for_time({tp: at.timestamp_ms for tp, at in newest.items()})
            spans = {
                tp: (start, min(start + SEARCHED_RECORDS, ends.get(tp, 0)))
                for tp, start in starts.items()
            }
            self._source.visit(spans, partial(_take_equal, newest, found))
            left = {tp: records for tp, records in left.items() if records and tp not in found}
        return found

    def by_sequence(
        self, tp: TopicPartition, remote: TopicPartition, written: list[Fingerprint]
    ) -> Place | GuardError | None:
        """The newest of the records that the source has at one place only, after the same ones."""
        context, config = self.context, self.context.config
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
        """Whether *written* is in the source, record by record, up to *offset*.

        The source may have lost the first ones by retention.
        """
        span, count = {tp: (0, offset + 1)}, {tp: len(written)}
        upstream = last_fingerprints(self._source, span, count, {tp: "broker"})[tp]
        pairs = zip(reversed(upstream), reversed(written), strict=False)
        return bool(upstream) and all(ours.digest == theirs.digest for ours, theirs in pairs)


def _take_equal(
    wanted: Mapping[TopicPartition, Fingerprint],
    found: dict[TopicPartition, Place],
    tp: TopicPartition,
    record: KafkaRecord,
) -> bool:
    """Whether *record* is the one that is wanted of its partition; adds it to *found* if so."""
    is_equal = fingerprint(record, "preserve").digest == wanted[tp].digest
    if is_equal:
        found[tp] = (wanted[tp], record.offset)
    return is_equal
