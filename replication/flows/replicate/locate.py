"""Finds where each partition resumes: by the offset map and the target's log, so nothing repeats.

The anchor is the last pair of equal positions in the offset map. Target records after it were
written by a batch that is not in the map, because the batch or its process was interrupted. They
are counted on the source, and the last of them are compared before the count is trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication.flows.context import FlowContext
from replication.flows.replicate.acceptances import Acceptances
from replication.flows.replicate.decide import (
    Found,
    LogEnds,
    current_ends,
    decide,
    refuse,
    settled_ends,
)
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.match import (
    describe_alignment,
    realign,
    realigned_runs,
)
from replication.flows.replicate.place import Match
from replication.flows.replicate.starts import rule_for
from replication.flows.replicate.tails import CountedTail, matching_tails
from replication.log import Log
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.alignment import Alignment
from replication.offsets.guard import Jump, Refusal, foreign
from replication.offsets.resume import CountAhead, Resume, StartFresh
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor
from replication.spark.counting import RecordSpan, offsets_after
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Located:
    """Where the partitions of a plan resume. Topics in ``refused`` and ``gone`` have no position.

    Args:
        positions: By upstream partition.
        refused: Why continuing would lose or repeat records, by upstream partition.
        gone: Topics that were deleted on one of the clusters since the plan was made.
        unmatched: As in `Decided`.
    """

    positions: dict[TopicPartition, Position]
    refused: dict[TopicPartition, Refusal]
    gone: frozenset[str]
    unmatched: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What follows from counting: runs for the offset map, other decisions, refusals, events."""

    runs: dict[TopicPartition, list[OffsetRun]] = field(default_factory=dict)
    jumps: dict[TopicPartition, Jump] = field(default_factory=dict)
    refused: dict[TopicPartition, Refusal] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)


def find_positions(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    generation: int,
    *,
    is_quiet: bool = False,
) -> Located:
    """Finds where the partitions of *plan* resume, and writes what is new to the offset map.

    Args:
        context: The flow.
        plan: Its topics; no query replicates them.
        map_writer: The offset map.
        generation: The number of the next generation.
        is_quiet: Whether nothing can be in flight to these partitions, because no query has
            written to them since somebody waited for it.

    Raises:
        ClusterError: A cluster does not answer.
    """
    log_ends = current_ends(context, plan) if is_quiet else settled_ends(context, plan)
    anchors = map_writer.anchors
    acceptances = Acceptances(context)
    decided = decide(context, plan, map_writer, log_ends, acceptances.accepted)
    counted = _count_ahead(context, plan, decided.found, log_ends, acceptances)
    decided = refuse(decided, counted.refused)
    found = {tp: counted.jumps.get(tp, at) for tp, at in decided.found.items()}
    new_runs = {tp: runs for tp, runs in counted.runs.items() if tp in found}
    events = counted.events
    for tp, at in found.items():
        known = anchors.get(tp) if tp not in decided.void else None
        if runs := _first_runs(at, known.position if known else None):
            new_runs[tp] = runs
        events += _events(tp, at, decided.void.get(tp))
    context.tables.record_events(context.config.flow, events)
    recut = {
        tp: [*at.refusal.kept, *new_runs.pop(tp)]
        for tp, at in found.items()
        if isinstance(at, Jump) and at.refusal.kept is not None
    }
    map_writer.replace(FinishedRuns(generation, recut, plan.source_ids))
    recreated = {tp for tp, at in found.items() if _is_of_new_topic(at)}
    map_writer.forget({*decided.void, *recreated})
    map_writer.record(new_runs, plan.source_ids)
    map_writer.placed -= {
        tp for tp, at in found.items() if isinstance(at, Match) and not at.has_gap
    }
    map_writer.write(FinishedRuns(generation, new_runs, plan.source_ids))
    # after the new rows: a crash in between must not leave a partition without a position
    map_writer.delete(decided.void, before_generation=generation)
    resumed = {tp: at.position for tp, at in found.items() if isinstance(at, Resume)}
    acceptances.settle(plan, decided.refused, are_positions_used=True)
    positions = resumed | {tp: runs[-1].end for tp, runs in {**new_runs, **recut}.items()}
    return Located(positions, decided.refused, decided.gone, decided.unmatched)


def _first_runs(found: Found, known: Position | None) -> list[OffsetRun]:
    """What the offset map is to state of a start that it does not give.

    *known* is the last position of the map, None if it begins here.
    """
    if isinstance(found, StartFresh):
        return [anchor(found.position)]
    if isinstance(found, Match):
        return found.new_runs(known)
    return found.new_runs() if isinstance(found, Jump) else []


def _events(tp: TopicPartition, found: Found, void: str | None) -> list[NewEvent]:
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


def _is_of_new_topic(found: Found) -> bool:
    return isinstance(found, Jump) and found.refusal.cause == "source-recreated"


def _count_ahead(
    context: FlowContext,
    plan: TopicPlan,
    found: Mapping[TopicPartition, Found],
    log_ends: LogEnds,
    acceptances: Acceptances,
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
        ruled = _rule_foreign(context, plan, tp, ahead, aligned, log_ends, acceptances)
        if isinstance(ruled, Refusal):
            counted.refused[tp] = ruled
        elif isinstance(ruled, Jump) and ruled.decided_by != "skip":
            counted.jumps[tp] = ruled
        else:
            counted.runs[tp], event = realigned_runs(tp, remote, ahead, aligned)
            counted.events.append(event)
    return counted


def _rule_foreign(
    context: FlowContext,
    plan: TopicPlan,
    tp: TopicPartition,
    ahead: CountAhead,
    aligned: Alignment,
    log_ends: LogEnds,
    acceptances: Acceptances,
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
    return rule_for(context.config, plan, tp, refusal, acceptances.accepted)
