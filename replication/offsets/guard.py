"""What to do where a partition cannot resume without losing or repeating records. Pure.

A `Refusal` says why, and where the partition could go on. A policy of the configuration or the
one-time acceptance of an operator turns it into a `Jump`. A skip never repeats a record, as far as
that can be known; a restart never loses one that the source still has.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal

from replication.model import GuardCause, GuardPolicy, Location, Position, TopicPartition
from replication.offsets.map import NoAnswer, translate_back
from replication.offsets.runs import OffsetRun, anchor, runs_between

StartOffset = int | Literal["earliest", "latest"]
"""An offset on the source, or what it is called whatever it is at that moment."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a partition does not resume on its own, and where it could go on.

    Args:
        cause: What happened.
        text: The same for an operator, with offsets.
        earliest: The source's first offset.
        end: The source's log end offset.
        log_end: The target's log end offset, at which every copy goes on.
        replicated: The source offset up to which records are on the target; None if not known.
        skip: Where a skip goes on.
        restart: Where a restart goes on.
        since: The last position that the offset map keeps; None if it begins again.
        copied: The source offsets above ``replicated`` that may be on the target, first and end.
        remaining_runs: The map as far as the target has its records, if it no longer has all.
        matched: Runs that are not in the map yet.
        cut: Where the log was cut that has lost records, if that is known: it may have other ones
            from there on.
        present_from: From this source offset on the target has the records up to ``skip``, although
            those before it were cut off.
    """

    cause: GuardCause
    text: str
    earliest: int
    end: int
    log_end: int
    replicated: int | None
    skip: int
    restart: int
    since: Position | None = None
    copied: tuple[int, int] | None = None
    remaining_runs: tuple[OffsetRun, ...] | None = None
    matched: tuple[OffsetRun, ...] = ()
    cut: int | None = None
    present_from: int | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """An operator's acceptance: the partition of the topic with this id goes on at *start*."""

    start: StartOffset
    topic_id: str


@dataclass(frozen=True, slots=True)
class Jump:
    """A partition goes on at *position*, although records are lost or repeated.

    Args:
        position: Where it goes on; downstream is the target's log end.
        refusal: Why it does not go on by itself.
        decided_by: The policy, or the acceptance of an operator.
    """

    position: Position
    refusal: Refusal
    decided_by: Literal["skip", "restart", "accept"]

    @property
    def lost(self) -> tuple[int, int] | None:
        """The source offsets that are not, or may not be, copied: first and end. None if none."""
        until = self.position.upstream
        if self.refusal.present_from is not None:
            until = min(until, self.refusal.present_from)
        return _span(self.refusal.replicated, self.refusal.earliest, until)

    @property
    def repeated(self) -> tuple[int, int] | None:
        """The source offsets that are, or may be, copied again: first and end. None if none."""
        known, at = self.refusal.replicated, self.position.upstream
        first, until = self.refusal.copied or (at, self.refusal.end if known is None else known)
        if known is not None and at < known:
            first = at
        return _span(max(at, first), at, until)

    @property
    def deleted(self) -> tuple[int, int] | None:
        """The source offsets whose copies the target may delete at once; None if there are none."""
        if self.refusal.cause != "copies-expired":
            return None
        at = self.position.upstream
        return _span(at, at, self.refusal.skip)

    @property
    def effect(self) -> str:
        """What is lost and what is repeated, in words."""
        is_known = self.refusal.replicated is not None
        lost = "are not copied" if is_known else "are not copied, unless they are there already"
        is_sure = is_known and self.refusal.copied is None
        again = "are copied again" if is_sure else "may be copied again"
        gone = "are copied, and the target may delete them at once"
        spans = ((self.lost, lost), (self.repeated, again), (self.deleted, gone))
        phrases = [f"source offsets {s[0]} to {s[1] - 1} {verb}" for s, verb in spans if s]
        effect = " and ".join(phrases) or "of what the source has, nothing is left out or repeated"
        return f"{effect}; {self.unknown}" if self.unknown else effect

    @property
    def unknown(self) -> str | None:
        """What the source no longer has, so that nobody can count what of it was not copied."""
        cause, earliest = self.refusal.cause, self.refusal.earliest
        if cause == "source-recreated":
            gone = "the deleted topic had"
        elif cause == "source-truncated":
            gone = "was cut off the source"
        elif self.refusal.replicated is None and earliest > 0:
            gone = f"the source had before offset {earliest}"
        else:
            return None
        return f"what {gone} and was not copied cannot be counted"

    def text(self, tp: TopicPartition) -> str:
        """Returns the whole story of *tp*, for an operator."""
        decision = "as accepted" if self.decided_by == "accept" else f"policy {self.decided_by}"
        return (
            f"{self.refusal.text}. By decision ({decision}) {tp} goes on at source offset "
            f"{self.position.upstream}, target offset {self.position.downstream}: {self.effect}"
        )

    def new_runs(self) -> list[OffsetRun]:
        """Returns what the jump adds to the offset map."""
        since = self.refusal.since
        runs = runs_between(since, self.position) if since else [anchor(self.position)]
        return [*self.refusal.matched, *runs]


def unmatched(
    text: str, fresh: Position, offsets: tuple[int, int], since: Position | None
) -> Refusal:
    """Returns the refusal of a partition whose last target records are not found in the source.

    Args:
        text: Why, for an operator.
        fresh: A start without history; its downstream is the target's log end.
        offsets: The source's first offset and its log end.
        since: The last position of the offset map, None if there is none.
    """
    earliest, end = offsets
    return Refusal(
        "unmatched",
        text,
        earliest,
        end,
        fresh.downstream,
        replicated=None,
        skip=end,
        restart=earliest,
        since=since,
    )


def recreated(text: str, known: Position, offsets: tuple[int, int], log_end: int) -> Refusal:
    """Returns the refusal of a new topic whose remote topic holds records of the deleted one.

    What the target got after the position that is *known* to be of the deleted topic may be of
    either: Kafka's consumer goes on at its offset in the new topic.

    Args:
        text: Why, for an operator.
        known: The last position of the offset map.
        offsets: The new topic's first offset and its log end.
        log_end: The target's log end.
    """
    earliest, end = offsets
    first, records = max(earliest, known.upstream), log_end - known.downstream
    text = f"{text}. What the deleted topic had from offset {known.upstream} on is gone, unless it "
    text += "was copied"
    if records <= 0 or first >= end:
        copied, replicated, until = None, earliest, earliest
    else:
        until = min(end, first + records)
        copied, replicated = (first, until), None
        text += (
            f". The last {records} records of the target were copied after the ids of the topics "
            f"were last compared: they may be of the new topic, from its offset {first} to "
            f"{until - 1}, or further where its offsets have gaps, but not from before {first}"
        )
    return Refusal(
        "source-recreated",
        text,
        earliest,
        end,
        log_end,
        replicated=replicated,
        skip=until,
        restart=earliest,
        copied=copied,
    )


def foreign(
    text: str, offsets: tuple[int, int], log_end: int, matched: Sequence[OffsetRun], resume: int
) -> Refusal:
    """Returns the refusal of a partition to which another producer has written.

    Args:
        text: Why, for an operator.
        offsets: The source's first offset and its log end.
        log_end: The target's log end.
        matched: The runs on which both sides agree since the last known position.
        resume: The source offset up to which every record is on the target.
    """
    earliest, end = offsets
    return Refusal(
        "foreign-records",
        text,
        earliest,
        end,
        log_end,
        replicated=resume,
        skip=resume,
        restart=earliest,
        matched=tuple(matched),
    )


def source_truncated(
    known: Position, offsets: tuple[int, int], log_end: int, cut: int | None
) -> Refusal:
    """Returns the refusal of a partition whose source has lost records that were copied.

    Args:
        known: The last position of the offset map.
        offsets: The source's first offset and its log end.
        log_end: The target's log end.
        cut: Where the source was cut. None if that is unknown: below its end it may have other
            records than the copied ones.
    """
    earliest, end = offsets
    if cut is None:
        text = (
            f"the source's log ends at {end}, but the offset map ends at {known.upstream}: the "
            "topic was recreated or truncated"
        )
    else:
        text = (
            f"the source's log was cut at offset {cut} and ends at {end} now, but the offset map "
            f"ends at {known.upstream}: the records that were copied from its offsets {cut} to "
            f"{known.upstream - 1} are not there any more, and other ones may have these offsets"
        )
    at = max(earliest, end if cut is None else cut)
    return Refusal(
        "source-truncated",
        text,
        earliest,
        end,
        log_end,
        replicated=None if cut is None else at,
        skip=at,
        restart=earliest if cut is None else at,
        since=known,
        cut=cut,
    )


def read_over(refusal: Refusal, known: Position, sure_until: int) -> Refusal:
    """Refines *refusal* of a source that was cut by what may have been copied from behind the cut.

    Args:
        refusal: Of the partition.
        known: The last position of the offset map.
        sure_until: Up to there it was copied before the cut. Of the rest nobody knows it.
    """
    is_counted = refusal.since is None or refusal.log_end <= known.downstream
    until = min(known.upstream, refusal.end) if is_counted else refusal.end
    return replace(refusal, copied=(sure_until, until)) if sure_until < until else refusal


def target_truncated(
    known: Position, offsets: tuple[int, int], log_end: int, cut: int | None
) -> Refusal:
    """Returns the refusal of a partition whose remote partition has lost records at its end.

    Args:
        known: The last position of the offset map.
        offsets: The source's first offset and its log end.
        log_end: The target's log end.
        cut: Where the target was cut; None if that is unknown.
    """
    earliest, end = offsets
    if cut is None:
        text = (
            f"the target's log ends at {log_end}, but the offset map ends at {known.downstream}: "
            "the topic was recreated or truncated"
        )
    else:
        text = (
            f"the target's log was cut at offset {cut} and ends at {log_end} now, but the offset "
            f"map ends at {known.downstream}: the copies at its offsets {cut} to "
            f"{known.downstream - 1} are lost"
        )
    return Refusal(
        "target-truncated",
        text,
        earliest,
        end,
        log_end,
        replicated=None,
        skip=max(earliest, min(known.upstream, end)),
        restart=earliest,
        cut=cut,
    )


def expired(text: str, position: Position, kept_from: int, offsets: tuple[int, int]) -> Refusal:
    """Returns the refusal of a partition whose first records the target would delete at once.

    Args:
        text: Why, for an operator.
        position: Where the partition would start.
        kept_from: The source's first offset that the target keeps.
        offsets: The source's first offset and its log end.
    """
    earliest, end = offsets
    return Refusal(
        "copies-expired",
        text,
        earliest,
        end,
        position.downstream,
        replicated=position.upstream,
        skip=kept_from,
        restart=position.upstream,
    )


def with_map(refusal: Refusal, runs: Sequence[OffsetRun], equal_until: int) -> Refusal:
    """Refines *refusal* of a partition whose target was cut by the partition's offset map.

    A restart refills what was cut off the target, and repeats nothing else.

    Args:
        refusal: Of the partition.
        runs: Its map.
        equal_until: The target offset up to which the target has the records that the map states.
    """
    found = translate_back(runs, equal_until) if runs else None
    if found is None or isinstance(found, NoAnswer):
        return replace(refusal, remaining_runs=())
    replicated, kept = min(found.offset, refusal.end), cut(runs, equal_until)
    # where offsets have gaps, the last record kept may lie after `replicated`
    since = kept[-1].end if kept else Position(replicated, equal_until)
    return replace(
        refusal,
        replicated=replicated,
        restart=max(replicated, refusal.earliest),
        # of what the target has got behind the cut, the map cannot say what it is
        since=since if refusal.log_end == equal_until else None,
        remaining_runs=tuple(kept),
        cut=equal_until,
    )


def cut(runs: Iterable[OffsetRun], log_end: int) -> list[OffsetRun]:
    """Returns what *runs* state about the target offsets before *log_end*."""
    kept = []
    for run in runs:
        if run.tgt_until <= log_end:
            kept.append(run)
        elif run.tgt_from < log_end:
            count = log_end - run.tgt_from
            until = run.src_until - (run.count - count)
            kept.append(OffsetRun(run.src_from, until, run.tgt_from, count))
    return kept


def rule(
    refusal: Refusal, policy: GuardPolicy, accepted: Accepted | None, topic_id: str
) -> Jump | Refusal:
    """Applies *policy*, or before it an operator's acceptance, to *refusal*.

    Args:
        refusal: Why the partition does not resume by itself.
        policy: For its cause.
        accepted: The operator's acceptance, if there is one.
        topic_id: The id of the source topic: an acceptance of a deleted topic is none.
    """
    if accepted is not None and accepted.topic_id == topic_id:
        start = offset_of(accepted.start, refusal)
        if refusal.earliest <= start <= refusal.end:
            return Jump(Position(start, refusal.log_end), refusal, "accept")
        text = (
            f"{refusal.text}; offset {start} was accepted, but the source has offsets "
            f"{refusal.earliest} to {refusal.end}"
        )
        return replace(refusal, text=text)
    if policy == "skip":
        return Jump(Position(refusal.skip, refusal.log_end), refusal, "skip")
    if policy == "restart":
        return Jump(Position(refusal.restart, refusal.log_end), refusal, "restart")
    return refusal


def offset_of(start: StartOffset, refusal: Refusal) -> int:
    """Returns the source offset that *start* means."""
    if isinstance(start, int):
        return start
    return refusal.earliest if start == "earliest" else refusal.end


def _span(known: int | None, earliest: int, until: int) -> tuple[int, int] | None:
    """Returns the offsets from *known*, or from *earliest* if that is not known, up to *until*."""
    first = earliest if known is None else known
    return (first, until) if first < until else None


# Decides where each partition resumes, or why it cannot.
#
# The *anchor* is the last pair of equal positions in the offset map. Target records after it were
# written by a batch that was never recorded; resuming must neither lose nor repeat them.

NO_OFFSETS: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume at *position*: the target's log ends where the offset map does."""

    position: Position


@dataclass(frozen=True, slots=True)
class CountAhead:
    """The target holds *records* records after *anchor*: find the source offset after as many.

    The source may hold fewer: then another producer wrote some of them.
    """

    anchor: Position
    records: int

    @property
    def log_end(self) -> int:
        """Where the target's log ends."""
        return self.anchor.downstream + self.records


@dataclass(frozen=True, slots=True)
class StartFresh:
    """No offset map and an empty target partition: start at *position*."""

    position: Position


@dataclass(frozen=True, slots=True)
class MatchTail:
    """Counting cannot place the target's records: find its last ones in the source.

    ``position.downstream`` is the target's log end. ``position.upstream`` is the start that the
    configuration alone gives; records before it are not known to be replicated.
    """

    position: Position


@dataclass(frozen=True, slots=True)
class Missing:
    """The partition was deleted on one side since it was listed.

    Args:
        side: Where.
        text: The same for an operator.
    """

    side: Location
    text: str


Decision = Resume | CountAhead | StartFresh | MatchTail | Missing | Refusal


def plan_positions(
    partitions: Iterable[TopicPartition],
    anchors: Mapping[TopicPartition, Position],
    log_ends: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    latest: Mapping[TopicPartition, int] = NO_OFFSETS,
    source_cuts: Mapping[TopicPartition, int] = NO_OFFSETS,
    target_cuts: Mapping[TopicPartition, int] = NO_OFFSETS,
    shared: Collection[TopicPartition] = (),
) -> dict[TopicPartition, Decision]:
    """Decides where each partition resumes, or why it cannot.

    Args:
        partitions: The partitions the flow replicates. All keys are upstream partitions.
        anchors: The last pair of equal positions in the offset map; none for a new partition.
        log_ends: Log end offsets of the target; none where the partition is missing.
        earliest: The source's first offsets; none where the partition is missing.
        ends: The source's log end offsets, or its last stable ones.
        latest: Where partitions without an offset map start, unless at the earliest offset.
        source_cuts: Where the source's log was cut before the anchor, as its brokers say: it may
            have grown beyond the anchor since.
        target_cuts: The same for remote partitions.
        shared: Partitions whose remote partition others write as well. The length of its log says
            nothing of this flow's records, so these resume at the anchor, and what was copied and
            not recorded is copied again.
    """
    decisions: dict[TopicPartition, Decision] = {}
    for tp in partitions:
        if tp not in earliest or tp not in ends:
            decisions[tp] = Missing("source", f"{tp} does not exist on the source")
        elif tp not in log_ends:
            text = f"the remote partition of {tp} does not exist on the target"
            decisions[tp] = Missing("target", text)
        elif tp in anchors and tp in shared:
            source = earliest[tp], ends[tp], source_cuts.get(tp)
            target = log_ends[tp], target_cuts.get(tp)
            decisions[tp] = _resume_shared(anchors[tp], source, target)
        elif tp in anchors:
            source = earliest[tp], ends[tp], source_cuts.get(tp)
            target = log_ends[tp], target_cuts.get(tp)
            decisions[tp] = _resume_from_anchor(anchors[tp], source, target)
        else:
            start = Position(latest.get(tp, earliest[tp]), log_ends[tp])
            is_empty = not log_ends[tp] or tp in shared
            decisions[tp] = StartFresh(start) if is_empty else MatchTail(start)
    return decisions


_Source = tuple[int, int, int | None]  # the first offset, the log end, and where it was cut
_Target = tuple[int, int | None]  # the log end, and where it was cut


def _resume_shared(anchor: Position, source: _Source, target: _Target) -> Decision:
    """Decides where none of the target's records after *anchor* is known to be this flow's."""
    log_end, cut = target
    own_end = min(anchor.downstream, log_end)
    refusal = _refusal(anchor, source, (own_end, cut))
    # another writer's records are at the log's end, so that is where copies go on
    return replace(refusal, log_end=log_end, since=None) if refusal else Resume(anchor)


def _resume_from_anchor(anchor: Position, source: _Source, target: _Target) -> Decision:
    (earliest, end, _), (log_end, _) = source, target
    records = log_end - anchor.downstream
    reached = min(end, anchor.upstream + records)  # at least: offsets have gaps
    refusal = _refusal(anchor, source, target)
    if refusal is not None:
        return refusal
    if records == 0:
        return Resume(anchor)
    if earliest > anchor.upstream:  # the first records to count are gone
        return MatchTail(Position(reached, log_end))
    return CountAhead(anchor, records)


def _refusal(anchor: Position, source: _Source, target: _Target) -> Refusal | None:
    (earliest, end, source_cut), (log_end, target_cut) = source, target
    records = log_end - anchor.downstream
    reached = min(end, anchor.upstream + records)
    if records < 0 or (target_cut is not None and target_cut < anchor.downstream):
        return target_truncated(anchor, (earliest, end), log_end, target_cut)
    if end < anchor.upstream or (source_cut is not None and source_cut < anchor.upstream):
        return source_truncated(anchor, (earliest, end), log_end, source_cut)
    if reached < earliest:
        return Refusal(
            "records-expired",
            f"the source now starts at offset {earliest}: offsets {reached} to {earliest - 1} "
            "were deleted there and may not have been replicated",
            earliest,
            end,
            log_end,
            replicated=reached,
            skip=earliest,
            restart=earliest,
            since=anchor,
        )
    return None


def start_over(void: Position, earliest: int, end: int, *, keeps_offset: bool) -> int:
    """Returns the source offset at which a remote partition starts that replaces a former one.

    With ``auto.offset.reset=latest`` the start must not be the log end, which is for partitions
    that the flow sees for the first time: records in between were never replicated.

    Args:
        void: The position that the offset map has for the old remote partition.
        earliest: The source's first offset.
        end: The source's log end offset.
        keeps_offset: Whether to go on after ``void.upstream`` instead of at *earliest*.
    """
    return max(earliest, min(void.upstream, end)) if keeps_offset else earliest


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The topic ids of a source topic and of its remote topic; None where it is not known."""

    source: str
    remote: str | None


@dataclass(frozen=True, slots=True)
class Void:
    """The position is of a deleted topic, and nothing keeps its partition from starting over."""

    text: str


@dataclass(frozen=True, slots=True)
class Recreated:
    """The source topic is a new one, but the remote topic holds records of the old one."""

    text: str


def check_topic_ids(
    names: tuple[str, str], stored: TopicIds, now: TopicIds, downstream: int, log_end: int | None
) -> Void | Recreated | None:
    """Returns what a partition's topic ids say about its stored position; None if it holds.

    Args:
        names: Of the source topic and of the remote one, for the texts.
        stored: The ids when the position was stored.
        now: The ids of today.
        downstream: The stored position on the target.
        log_end: Where the target's log ends now; None if it has no such partition.
    """
    topic, remote = names
    again = f"topic {topic} was deleted and created again (id {stored.source}, now {now.source})"
    if stored.remote is not None and now.remote not in {None, stored.remote}:
        return Void(f"remote topic {remote} was deleted and created again")
    if stored.remote is None and log_end == 0 and downstream > 0:  # rows of an earlier version
        return Void(f"remote topic {remote} is empty")
    if stored.source == now.source:
        return None
    if log_end == 0:
        return Void(again)
    return Recreated(f"{again}, and {remote} still holds records of the deleted topic")


# What existed on the source when a flow first started: ``auto.offset.reset=latest`` is for that.
#
# A partition that is born later begins at its earliest offset, or its first records would be lost
# between two looks at the topics.


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The source as a flow that starts at ``latest`` has first seen it.

    Args:
        names: All topics that there were.
        ends: The log ends of the partitions that the flow had selected.
        ids: The ids of their topics.
    """

    names: frozenset[str] = frozenset()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    def latest(self, tp: TopicPartition, topic_id: str, end: int) -> int | None:
        """Returns where *tp*, without a position, begins; None at the earliest offset.

        Args:
            tp: The partition.
            topic_id: Of its topic.
            end: Its log end. A topic that was not selected at first begins there.
        """
        if tp.topic not in self.ids:
            return end if tp.topic in self.names else None
        is_same = self.ids[tp.topic] == topic_id
        return min(end, self.ends[tp]) if is_same and tp in self.ends else None


def starts_at_latest(
    first: FirstStart | None,
    partitions: Collection[TopicPartition],
    topic_ids: Mapping[str, str],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Returns the start offsets of those *partitions* that do not begin at their earliest one.

    Args:
        first: What existed at the flow's first start; None if that is now.
        partitions: Partitions without a position.
        topic_ids: Of their topics.
        earliest: The source's first offsets.
        ends: Its log ends. Of a partition that does not exist any more one of both is missing.
    """
    starts = {}
    for tp in partitions:
        if tp in earliest and tp in ends:
            end = ends[tp]
            at = end if first is None else first.latest(tp, topic_ids[tp.topic], end)
            if at is not None:
                starts[tp] = max(earliest[tp], at)
    return starts
