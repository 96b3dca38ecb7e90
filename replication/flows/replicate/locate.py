"""Where each partition goes on: from the books and the target's log, so that nothing repeats.

The anchor is the books' last pair of equal positions. What the target's log holds beyond it was
written by a batch that never reached the books, because it was cut or its process died. Those
records are counted on the source, and the last of them are compared, before the count is believed
(design.md, D8).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from replication.errors import GuardError
from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.match import match_existing_target, realign, tails_match
from replication.flows.replicate.settle import settled_log_ends
from replication.model import Position, TopicPartition
from replication.offsets.resume import (
    CountAhead,
    MatchTail,
    Problem,
    Resume,
    StartFresh,
    plan_positions,
)
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor
from replication.spark.counting import RecordSpan, offsets_after
from replication.spark.kafka_options import client_id
from replication.state.offset_rows import Anchor
from replication.topics.topic_plan import TopicPlan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """How both sides stand while the flow does not run. Keys are upstream partitions."""

    remote: Mapping[TopicPartition, TopicPartition]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


def find_positions(
    context: FlowContext,
    plan: TopicPlan,
    books: MapWriter,
    generation: int,
) -> dict[TopicPartition, Position]:
    """Where every partition of *plan* goes on; what is new about it is in the table on return.

    Raises:
        GuardError: For some partitions no position is safe; all of them are named.
        ClusterError: A cluster does not answer.
    """
    config = context.config
    anchors = books.anchors
    _refuse_recreated(context, plan, anchors)
    standing = _standing(context, plan)
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in plan.partitions if tp in anchors},
        standing.target_ends,
        context.source.earliest(plan.partitions),
        standing.source_ends,
        reset=config.auto_offset_reset,
    )
    _refuse(context, {tp: it.text for tp, it in decisions.items() if isinstance(it, Problem)})
    news = _located(
        context, {tp: it for tp, it in decisions.items() if isinstance(it, CountAhead)}, standing
    )
    for tp, decision in decisions.items():
        if isinstance(decision, StartFresh):
            news[tp] = [anchor(decision.position)]
        elif isinstance(decision, MatchTail):
            position = match_existing_target(context, tp, standing.remote[tp], decision.position)
            news[tp] = [anchor(position)]
    books.write(FinishedRuns(generation, news, plan.source_ids))
    resumed = {tp: it.position for tp, it in decisions.items() if isinstance(it, Resume)}
    return resumed | {tp: runs[-1].end for tp, runs in news.items()}


def _standing(context: FlowContext, plan: TopicPlan) -> LogEnds:
    config = context.config
    remote = {tp: TopicPartition(plan.topics[tp.topic], tp.partition) for tp in plan.partitions}
    counted_by = client_id(config.flow) if config.record_timestamps == "preserve" else None
    ends = settled_log_ends(context.target, list(remote.values()), context.spark, counted_by)
    return LogEnds(
        remote,
        context.source.log_ends(plan.partitions, config.isolation),
        {tp: ends[remote[tp]] for tp in plan.partitions if remote[tp] in ends},
    )


def _located(
    context: FlowContext, wanted: Mapping[TopicPartition, CountAhead], standing: LogEnds
) -> dict[TopicPartition, list[OffsetRun]]:
    """The runs that were written and never booked, by counting; checked against the records."""
    config = context.config
    if not wanted:
        return {}
    records = sum(it.records for it in wanted.values())
    log.info("flow=%s counting %d records written beyond the books", config.flow, records)
    ends = offsets_after(
        context.spark,
        config.source.consumer,
        {tp: RecordSpan(it.anchor.upstream, it.records) for tp, it in wanted.items()},
        standing.source_ends,
    )
    located: dict[TopicPartition, list[OffsetRun]] = {}
    for tp, it in wanted.items():
        upstream, downstream = it.anchor.upstream, it.anchor.downstream
        remote = standing.remote[tp]
        if tp in ends and tails_match(config, (tp, upstream, ends[tp]), (remote, it)):
            located[tp] = [OffsetRun(upstream, ends[tp], downstream, it.records)]
        else:
            located[tp] = realign(context, tp, remote, it, standing.source_ends[tp])
    return located


def _refuse_recreated(
    context: FlowContext, plan: TopicPlan, anchors: Mapping[TopicPartition, Anchor]
) -> None:
    """A topic id that changed: the stored offsets are another topic's."""
    config = context.config
    _refuse(
        context,
        {
            tp: (
                f"topic {tp.topic} on cluster {config.flow.source} was deleted and created again "
                f"(its id was {anchors[tp].topic_id}, is {plan.source_ids[tp.topic]}), the books "
                f"stand at offset {anchors[tp].position.upstream} of the old one"
            )
            for tp in plan.partitions
            if tp in anchors and anchors[tp].topic_id != plan.source_ids[tp.topic]
        },
    )


def _refuse(context: FlowContext, problems: Mapping[TopicPartition, str]) -> None:
    """Ends the flow with all *problems*, each an event row of its own."""
    config = context.config
    if not problems:
        return
    for tp, text in problems.items():
        context.tables.record_event(
            config.flow, "refused", text, topic=tp.topic, partition=tp.partition, policy="fail"
        )
    lines = "".join(f"\n  - {tp}: {text}" for tp, text in sorted(problems.items()))
    raise GuardError(
        f"flow {config.flow} stops, since going on would lose or repeat records:{lines}\n"
        "Delete the remote topic to replicate it anew from the source's earliest offset, or leave "
        "the topic out with topics.exclude"
    )
