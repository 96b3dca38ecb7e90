"""Where each partition goes on: from the books and the target's log, so that nothing repeats.

The anchor is the books' last pair of equal positions. What the target's log holds beyond it was
written by a batch that never reached the books, because it was cut or its process died. Those
records are counted on the source, and the last of them are compared, before the count is believed
(design.md, D8).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.flows.context import World
from replication.flows.replicate.map_writer import FlowBooks
from replication.flows.replicate.match import adopted, realigned, tails_match
from replication.flows.replicate.settle import standing_log_ends
from replication.model import Position, TopicPartition
from replication.offsets.resume import Adopt, Fresh, Locate, Problem, Resume, plan_positions
from replication.offsets.runs import OffsetRun, anchor
from replication.spark.counting import Stretch, offsets_after
from replication.spark.kafka_options import client_id, isolation
from replication.state.offset_table import Anchor
from replication.topics.topic_plan import TopicPlan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How both sides stand while the flow does not run. Keys are upstream partitions."""

    remote: Mapping[TopicPartition, TopicPartition]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]


def find_positions(
    world: World,
    config: FlowConfig,
    plan: TopicPlan,
    books: FlowBooks,
    generation: int,
) -> dict[TopicPartition, Position]:
    """Where every partition of *plan* goes on; what is new about it is in the table on return.

    Raises:
        GuardError: For some partitions no position is safe; all of them are named.
        ClusterError: A cluster does not answer.
    """
    anchors = books.anchors
    _refuse_recreated(world, config, plan, anchors)
    standing = _standing(world, config, plan)
    decisions = plan_positions(
        plan.partitions,
        {tp: anchors[tp].position for tp in plan.partitions if tp in anchors},
        standing.target_ends,
        world.source.earliest(plan.partitions),
        standing.source_ends,
        config.auto_offset_reset,
    )
    _refuse(world, config, {tp: it.text for tp, it in decisions.items() if isinstance(it, Problem)})
    news = _located(
        world, config, {tp: it for tp, it in decisions.items() if isinstance(it, Locate)}, standing
    )
    for tp, decision in decisions.items():
        if isinstance(decision, Fresh):
            news[tp] = [anchor(decision.position)]
        elif isinstance(decision, Adopt):
            position = adopted(world, config, tp, standing.remote[tp], decision.position)
            news[tp] = [anchor(position)]
    books.write(generation, news, plan.source_ids)
    resumed = {tp: it.position for tp, it in decisions.items() if isinstance(it, Resume)}
    return resumed | {tp: runs[-1].end for tp, runs in news.items()}


def _standing(world: World, config: FlowConfig, plan: TopicPlan) -> Standing:
    remote = {tp: TopicPartition(plan.topics[tp.topic], tp.partition) for tp in plan.partitions}
    counted_by = client_id(config.flow) if config.record_timestamps == "preserve" else None
    ends = standing_log_ends(world.target, list(remote.values()), world.spark, counted_by)
    return Standing(
        remote,
        world.source.log_ends(plan.partitions, isolation(config.source_consumer)),
        {tp: ends[remote[tp]] for tp in plan.partitions if remote[tp] in ends},
    )


def _located(
    world: World, config: FlowConfig, wanted: Mapping[TopicPartition, Locate], standing: Standing
) -> dict[TopicPartition, list[OffsetRun]]:
    """The runs that were written and never booked, by counting; checked against the records."""
    if not wanted:
        return {}
    records = sum(it.records for it in wanted.values())
    log.info("flow=%s counting %d records written beyond the books", config.flow, records)
    ends = offsets_after(
        world.spark,
        config.source_consumer,
        {tp: Stretch(it.anchor.upstream, it.records) for tp, it in wanted.items()},
        standing.source_ends,
    )
    located: dict[TopicPartition, list[OffsetRun]] = {}
    for tp, it in wanted.items():
        upstream, downstream = it.anchor.upstream, it.anchor.downstream
        remote = standing.remote[tp]
        if tp in ends and tails_match(config, (tp, upstream, ends[tp]), (remote, it)):
            located[tp] = [OffsetRun(upstream, ends[tp], downstream, it.records)]
        else:
            located[tp] = realigned(world, config, tp, remote, it, standing.source_ends[tp])
    return located


def _refuse_recreated(
    world: World, config: FlowConfig, plan: TopicPlan, anchors: Mapping[TopicPartition, Anchor]
) -> None:
    """A topic id that changed: the stored offsets are another topic's."""
    _refuse(
        world,
        config,
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


def _refuse(world: World, config: FlowConfig, problems: Mapping[TopicPartition, str]) -> None:
    """Ends the flow with all *problems*, each an event row of its own."""
    if not problems:
        return
    for tp, text in problems.items():
        world.tables.event(
            config.flow, "refused", text, topic=tp.topic, partition=tp.partition, policy="fail"
        )
    lines = "".join(f"\n  - {tp}: {text}" for tp, text in sorted(problems.items()))
    raise GuardError(
        f"flow {config.flow} stops, since going on would lose or repeat records:{lines}\n"
        "Delete the remote topic to replicate it anew from the source's earliest offset, or leave "
        "the topic out with topics.exclude"
    )
