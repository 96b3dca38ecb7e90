"""Finds where each partition resumes: by the offset map and the target's log, so nothing repeats.

The anchor is the last pair of equal positions in the offset map. Target records after it were
written by a batch that is not in the map, because the batch or its process was interrupted. They
are counted on the source, and the last of them are compared before the count is trusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replication.log import Log
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.alignment import Alignment
from replication.offsets.guard import Accepted, Jump, Refusal, foreign
from replication.offsets.resume import CountAhead, Resume, StartFresh
from replication.offsets.runs import OffsetRun, anchor
from replication.positions.decide import (
    LogEnds,
    Verdict,
    current_ends,
    decide,
    refuse,
    settled_ends,
)
from replication.positions.match import (
    describe_alignment,
    realign,
    realigned_runs,
)
from replication.positions.place import Match
from replication.positions.sides import FlowSides
from replication.positions.survey import Stored, rule_for
from replication.positions.tails import CountedTail, matching_tails
from replication.spark.counting import RecordSpan, offsets_after
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """Where the partitions of a plan resume, and what the offset map is to say of it.

    Nothing of it is written yet. Partitions of topics in ``refused`` and ``gone`` do not resume.

    Args:
        resumed: The positions that the offset map gives as it is.
        new_runs: What the map lacks of the other partitions; they resume where it ends then.
        recut: Whole maps of partitions whose target has lost records, up to where they resume.
        void: Partitions whose stored map is of deleted topics, and what was deleted.
        recreated: Partitions of a source topic that was created again.
        adopted: Partitions of a target that was written by others and has no gap.
        events: What an operator is to know of the starts.
        refused: Why continuing would lose or repeat records, by upstream partition.
        gone: Topics that were deleted on one of the clusters since the plan was made.
        unmatched: As in `Decided`.
    """

    resumed: Mapping[TopicPartition, Position]
    new_runs: Mapping[TopicPartition, Sequence[OffsetRun]]
    recut: Mapping[TopicPartition, Sequence[OffsetRun]]
    void: Mapping[TopicPartition, str]
    recreated: frozenset[TopicPartition]
    adopted: frozenset[TopicPartition]
    events: tuple[NewEvent, ...]
    refused: Mapping[TopicPartition, Refusal]
    gone: frozenset[str]
    unmatched: Mapping[TopicPartition, int]

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """Where partitions resume, by upstream partition."""
        written = {**self.new_runs, **self.recut}
        return {**self.resumed, **{tp: runs[-1].end for tp, runs in written.items()}}


@dataclass(frozen=True, slots=True)
class _Counted:
    """What follows from counting: runs for the offset map, other decisions, refusals, events."""

    runs: dict[TopicPartition, list[OffsetRun]] = field(default_factory=dict)
    jumps: dict[TopicPartition, Jump] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)


def find_positions(
    context: FlowSides,
    plan: TopicPlan,
    stored: Stored,
    accepted: Mapping[TopicPartition, Accepted],
    *,
    is_quiet: bool = False,
) -> Found:
    """Finds where the partitions of *plan* resume; writes nothing.

    Args:
        context: The flow.
        plan: Its topics; no query replicates them.
        stored: The offset map.
        accepted: What operators have accepted.
        is_quiet: Whether nothing can be in flight to these partitions, because no query has
            written to them since somebody waited for it.

    Raises:
        ClusterError: A cluster does not answer.
    """
    log_ends = current_ends(context, plan) if is_quiet else settled_ends(context, plan)
    decided = decide(context, plan, stored, log_ends, accepted)
    counted = _count_ahead(context, plan, decided.found, log_ends, accepted)
    decided = refuse(decided, counted.refused)
    found = {tp: counted.jumps.get(tp, at) for tp, at in decided.found.items()}
    new_runs = {tp: runs for tp, runs in counted.runs.items() if tp in found}
    events = list(counted.events)
    for tp, at in found.items():
        known = stored.anchors.get(tp) if tp not in decided.void else None
        if runs := _first_runs(at, known.position if known else None):
            new_runs[tp] = runs
        events += _events(tp, at, decided.void.get(tp))
    recut = {
        tp: [*at.refusal.kept, *new_runs.pop(tp)]
        for tp, at in found.items()
        if isinstance(at, Jump) and at.refusal.kept is not None
    }
    return Found(
        {tp: at.position for tp, at in found.items() if isinstance(at, Resume)},
        new_runs,
        recut,
        decided.void,
        frozenset(tp for tp, at in found.items() if _is_of_new_topic(at)),
        frozenset(tp for tp, at in found.items() if isinstance(at, Match) and not at.has_gap),
        tuple(events),
        decided.refused,
        decided.gone,
        decided.unmatched,
    )


def _first_runs(found: Verdict, known: Position | None) -> list[OffsetRun]:
    """What the offset map is to state of a start that it does not give.

    *known* is the last position of the map, None if it begins here.
    """
    if isinstance(found, StartFresh):
        return [anchor(found.position)]
    if isinstance(found, Match):
        return found.new_runs(known)
    return found.new_runs() if isinstance(found, Jump) else []


def _events(tp: TopicPartition, found: Verdict, void: str | None) -> list[NewEvent]:
    """What is recorded of the start of *tp*, whose map is *void* for that reason."""
    columns = tp._asdict()
    if isinstance(found, Match):
        return found.events(tp)
    if isinstance(found, Jump):
        at = found.position.upstream
        first, end = found.lost or found.repeated or (at, at)
        columns |= {"offset_from": first, "offset_until": end}
        return [NewEvent("jumped", found.text(tp), found.decided_by, columns)]
    if isinstance(found, StartFresh) and void:
        text = f"{void}; {tp} is copied again, {_from(found.position)}"
        columns |= {"offset_from": found.position.upstream}
        return [NewEvent("started-over", text, "restart", columns)]
    return []


def _from(start: Position) -> str:
    """From where on a partition is copied, and what its remote partition holds already."""
    if not start.downstream:
        return f"to an empty partition from offset {start.upstream} on"
    return (
        f"from offset {start.upstream} on, behind what the new topic holds already: its offsets up "
        f"to {start.downstream - 1}, which this flow may have written before it saw that the topic "
        "is a new one. Those records are repeated"
    )


def _is_of_new_topic(found: Verdict) -> bool:
    return isinstance(found, Jump) and found.refusal.cause == "source-recreated"


def _count_ahead(
    context: FlowSides,
    plan: TopicPlan,
    found: Mapping[TopicPartition, Verdict],
    log_ends: LogEnds,
    accepted: Mapping[TopicPartition, Accepted],
) -> _Counted:
    """Counts the target records that are not yet in the offset map, and compares the last ones."""
    wanted = {tp: at for tp, at in found.items() if isinstance(at, CountAhead)}
    config, counted = context.config, _Counted()
    if not wanted:
        return counted
    records = sum(ahead.records for ahead in wanted.values())
    log.info("counting_unrecorded", flow=config.flow, records=records)
    ends = offsets_after(
        context.spark,
        config.source.consumer,
        {tp: RecordSpan(ahead.anchor.upstream, ahead.records) for tp, ahead in wanted.items()},
        log_ends.source_ends,
    )
    tails = [
        CountedTail(
            tp,
            (ahead.anchor.upstream, ends[tp]),
            log_ends.remote[tp],
            ahead.records,
            ahead.log_end,
        )
        for tp, ahead in wanted.items()
        if tp in ends
    ]
    matching = matching_tails(config, tails)
    for tp, ahead in wanted.items():
        if tp in matching:
            start = ahead.anchor
            run = OffsetRun(start.upstream, ends[tp], start.downstream, ahead.records)
            counted.runs[tp] = [run]
            continue
        remote, end = log_ends.remote[tp], log_ends.source_ends[tp]
        aligned = realign(context, tp, remote, ahead, end)
        ruled = _rule_foreign(context, plan, tp, ahead, aligned, log_ends, accepted)
        if isinstance(ruled, Refusal):
            counted.refused[tp] = ruled
        elif isinstance(ruled, Jump) and ruled.decided_by != "skip":
            counted.jumps[tp] = ruled
        else:
            counted.runs[tp], event = realigned_runs(tp, remote, ahead, aligned)
            counted.events.append(event)
    return counted


def _rule_foreign(
    context: FlowSides,
    plan: TopicPlan,
    tp: TopicPartition,
    ahead: CountAhead,
    aligned: Alignment,
    log_ends: LogEnds,
    accepted: Mapping[TopicPartition, Accepted],
) -> Jump | Refusal | None:
    """The decision about records on the target that match nothing; None if there are none."""
    if not aligned.target_only:
        return None
    text = describe_alignment(log_ends.remote[tp], ahead, aligned)
    span = log_ends.earliest[tp], log_ends.source_ends[tp]
    refusal = foreign(
        f"{text}: another producer writes there",
        span,
        ahead.log_end,
        aligned.runs,
        aligned.upstream,
    )
    return rule_for(context.config, plan, tp, refusal, accepted)
