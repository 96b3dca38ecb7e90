"""Finds where to resume on a target that has records, but no offset map.

Another replicator such as MirrorMaker 2 wrote them, or the tables were lost. The target's last
records are searched in the source. Where copies have timestamps of their originals, these tell
where to search; otherwise a whole sequence of records must be the same, and must occur only once in
the source. What lies before is verified, because a target may have gaps.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from replication.errors import GuardError
from replication.kafka.reader import PARTITIONS_AT_ONCE, chunks
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.fingerprint import Fingerprint
from replication.offsets.runs import OffsetRun, anchor, runs_between
from replication.positions.compacted import Compacted, search_compacted
from replication.positions.originals import Copies, Original, Originals, Prints
from replication.positions.sides import FlowSides
from replication.positions.tails import (
    COMPARED_RECORDS,
    last_fingerprints,
)
from replication.positions.verify import Placed, Verified, verify
from replication.spark.fingerprints import equal_originals
from replication.topics.copy_rule import copy_rule

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
    context: FlowSides, existing: Mapping[TopicPartition, Existing]
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
    placed: dict[TopicPartition, Placed] = {}
    rule = copy_rule(config, {tp.topic for tp in existing})
    with (
        Originals(context, rule) as source,
        Copies(context, rule, "read_committed") as target,
    ):
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
    """Returns what follows from the place of the newest record and from what lies before it."""
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

    def __init__(self, context: FlowSides, source: Originals, rule: CopyRule) -> None:
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
