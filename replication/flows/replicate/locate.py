"""Finds where each partition resumes: by the offset map and the target's log, so nothing repeats.

The anchor is the last pair of equal positions in the offset map. Target records after it were
written by a batch that is not in the map, because the batch or its process was interrupted. They
are counted on the source, and the last of them are compared before the count is trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.match import match_existing_target, realign, tails_match
from replication.flows.replicate.settle import settled_log_ends
from replication.log import Log
from replication.model import Position, TopicPartition
from replication.offsets.resume import (
    CountAhead,
    MatchTail,
    Problem,
    Resume,
    StartFresh,
    plan_positions,
)
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor, runs_between
from replication.spark.counting import RecordSpan, offsets_after
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log end offsets of both sides while the flow is stopped, by upstream partition."""

    remote: Mapping[TopicPartition, TopicPartition]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


def find_positions(
    context: FlowContext,
    plan: TopicPlan,
    map_writer: MapWriter,
    generation: int,
) -> dict[TopicPartition, Position]:
    """Finds where every partition of *plan* resumes, and writes what is new to the offset map.

    Raises:
        GuardError: Some partitions have no safe position; the text names all of them.
        ClusterError: A cluster does not answer.
    """
    config = context.config
    anchors = map_writer.anchors
    _reject_recreated(context, plan, anchors)
    log_ends = _log_ends(context, plan)
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in plan.partitions if tp in anchors},
        log_ends.target_ends,
        context.source.earliest(plan.partitions),
        log_ends.source_ends,
        reset=config.auto_offset_reset,
    )
    problems = {tp: found.text for tp, found in decisions.items() if isinstance(found, Problem)}
    _reject(context, problems)
    ahead = {tp: found for tp, found in decisions.items() if isinstance(found, CountAhead)}
    new_runs = _count_ahead(context, ahead, log_ends)
    for tp, decision in decisions.items():
        if isinstance(decision, StartFresh):
            new_runs[tp] = [anchor(decision.position)]
        elif isinstance(decision, MatchTail):
            position = match_existing_target(context, tp, log_ends.remote[tp], decision.position)
            start = anchors.get(tp)
            new_runs[tp] = runs_between(start.position, position) if start else [anchor(position)]
    map_writer.record(new_runs, plan.source_ids)
    map_writer.write(FinishedRuns(generation, new_runs, plan.source_ids))
    resumed = {tp: found.position for tp, found in decisions.items() if isinstance(found, Resume)}
    return resumed | {tp: runs[-1].end for tp, runs in new_runs.items()}


def _log_ends(context: FlowContext, plan: TopicPlan) -> LogEnds:
    config = context.config
    remote = {tp: TopicPartition(plan.topics[tp.topic], tp.partition) for tp in plan.partitions}
    ends = settled_log_ends(context.target, list(remote.values()), context.spark, config.flow)
    return LogEnds(
        remote,
        context.source.log_ends(plan.partitions, config.isolation),
        {tp: ends[remote[tp]] for tp in plan.partitions if remote[tp] in ends},
    )


def _count_ahead(
    context: FlowContext, wanted: Mapping[TopicPartition, CountAhead], log_ends: LogEnds
) -> dict[TopicPartition, list[OffsetRun]]:
    """Counts the target records that are not yet in the offset map, and compares the last ones."""
    config = context.config
    if not wanted:
        return {}
    records = sum(ahead.records for ahead in wanted.values())
    log.info("counting_unrecorded", flow=config.flow, records=records)
    ends = offsets_after(
        context.spark,
        config.source.consumer,
        {tp: RecordSpan(ahead.anchor.upstream, ahead.records) for tp, ahead in wanted.items()},
        log_ends.source_ends,
    )
    runs: dict[TopicPartition, list[OffsetRun]] = {}
    for tp, ahead in wanted.items():
        upstream, downstream = ahead.anchor.upstream, ahead.anchor.downstream
        remote = log_ends.remote[tp]
        if tp in ends and tails_match(config, (tp, upstream, ends[tp]), (remote, ahead)):
            runs[tp] = [OffsetRun(upstream, ends[tp], downstream, ahead.records)]
        else:
            runs[tp] = realign(context, tp, remote, ahead, log_ends.source_ends[tp])
    return runs


def _reject_recreated(
    context: FlowContext, plan: TopicPlan, anchors: Mapping[TopicPartition, Anchor]
) -> None:
    """Stops the flow if a topic id changed: the stored offsets belong to the deleted topic."""
    config = context.config
    _reject(
        context,
        {
            tp: (
                f"topic {tp.topic} on cluster {config.flow.source} was deleted and created again "
                f"(id {anchors[tp].topic_id}, now {plan.source_ids[tp.topic]}), and the offset map "
                f"ends at offset {anchors[tp].position.upstream} of the deleted topic"
            )
            for tp in plan.partitions
            if tp in anchors and anchors[tp].topic_id != plan.source_ids[tp.topic]
        },
    )


def _reject(context: FlowContext, problems: Mapping[TopicPartition, str]) -> None:
    """Stops the flow because of *problems*, if there are any; each becomes an event row."""
    config = context.config
    if not problems:
        return
    for tp, text in problems.items():
        context.tables.record_event(
            config.flow, "refused", text, topic=tp.topic, partition=tp.partition, policy="fail"
        )
    lines = "".join(f"\n  - {tp}: {text}" for tp, text in sorted(problems.items()))
    raise GuardError(
        f"flow {config.flow} stopped: continuing would lose or repeat records:{lines}\n"
        "Delete the remote topic and the topic's rows in the table offset_runs to replicate it "
        "again from the source's earliest offset, or exclude the topic with topics.exclude"
    )
