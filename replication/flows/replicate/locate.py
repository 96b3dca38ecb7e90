"""Finds where each partition resumes: by the offset map and the target's log, so nothing repeats.

The anchor is the last pair of equal positions in the offset map. Target records after it were
written by a batch that is not in the map, because the batch or its process was interrupted. They
are counted on the source, and the last of them are compared before the count is trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.flows.context import FlowContext
from replication.flows.replicate.decide import Found, LogEnds, current_ends, decide, settled_ends
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.match import compared_timestamps, realign
from replication.flows.replicate.place import Match
from replication.flows.replicate.tails import CountedTail, matching_tails
from replication.log import Log
from replication.model import NewEvent, Position, TopicPartition
from replication.offsets.resume import CountAhead, Resume, StartFresh
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor, runs_between
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
    refused: dict[TopicPartition, str]
    gone: frozenset[str]
    unmatched: dict[TopicPartition, int]


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
    decided = decide(context, plan, map_writer, log_ends)
    found = decided.found
    ahead = {tp: at for tp, at in found.items() if isinstance(at, CountAhead)}
    new_runs, events = _count_ahead(context, ahead, log_ends)
    for tp, at in found.items():
        if isinstance(at, StartFresh):
            new_runs[tp] = [anchor(at.position)]
        elif isinstance(at, Match):
            events += at.events(tp)
            start = anchors.get(tp) if tp not in decided.void else None
            new_runs[tp] = (
                runs_between(start.position, at.position) if start else [anchor(at.position)]
            )
    for tp, reason in decided.void.items():
        events += _start_over(tp, reason, found[tp])
    context.tables.record_events(context.config.flow, events)
    map_writer.forget(decided.void)
    map_writer.record(new_runs, plan.source_ids)
    map_writer.write(FinishedRuns(generation, new_runs, plan.source_ids))
    # after the new rows: a crash in between must not leave a partition without a position
    map_writer.delete(decided.void, before_generation=generation)
    resumed = {tp: at.position for tp, at in found.items() if isinstance(at, Resume)}
    positions = resumed | {tp: runs[-1].end for tp, runs in new_runs.items()}
    return Located(positions, decided.refused, decided.gone, decided.unmatched)


def _start_over(tp: TopicPartition, reason: str, found: Found) -> list[NewEvent]:
    if not isinstance(found, StartFresh):
        return []
    start = found.position.upstream
    text = f"{reason}; {tp} is copied to an empty partition from offset {start} on"
    return [NewEvent("started-over", text, "restart", {**tp._asdict(), "offset_from": start})]


def _count_ahead(
    context: FlowContext, wanted: Mapping[TopicPartition, CountAhead], log_ends: LogEnds
) -> tuple[dict[TopicPartition, list[OffsetRun]], list[NewEvent]]:
    """Counts the target records that are not yet in the offset map, and compares the last ones."""
    config = context.config
    if not wanted:
        return {}, []
    records = sum(ahead.records for ahead in wanted.values())
    log.info("counting_unrecorded", flow=config.flow, records=records)
    ends = offsets_after(
        context.spark,
        config.source.consumer,
        {tp: RecordSpan(ahead.anchor.upstream, ahead.records) for tp, ahead in wanted.items()},
        log_ends.source_ends,
    )
    timestamps = compared_timestamps(context, {log_ends.remote[tp].topic for tp in wanted})
    tails = [
        CountedTail(
            tp,
            (ahead.anchor.upstream, ends[tp]),
            log_ends.remote[tp],
            ahead.records,
            ahead.anchor.downstream + ahead.records,
            timestamps[log_ends.remote[tp].topic],
        )
        for tp, ahead in wanted.items()
        if tp in ends
    ]
    matching = matching_tails(config, tails)
    runs: dict[TopicPartition, list[OffsetRun]] = {}
    events: list[NewEvent] = []
    for tp, ahead in wanted.items():
        if tp in matching:
            start = ahead.anchor
            runs[tp] = [OffsetRun(start.upstream, ends[tp], start.downstream, ahead.records)]
        else:
            remote, end = log_ends.remote[tp], log_ends.source_ends[tp]
            runs[tp], event = realign(context, tp, remote, ahead, end, timestamps[remote.topic])
            events.append(event)
    return runs, events
