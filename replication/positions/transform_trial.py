"""Tries a flow's transforms before they change a record: what must be refused.

Reads both clusters, and a few records of the source; writes nothing.
"""

from collections.abc import Collection, Mapping
from typing import Final

from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.log import Log
from replication.model import TopicPartition
from replication.positions.sides import FlowSides
from replication.spark.causes import SPARK_ERRORS, said
from replication.spark.counting import read_windows
from replication.spark.transform_check import transform_problems
from replication.spark.transforms import digested_trial
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)

SAMPLED_RECORDS: Final = 20
"""How many offsets at the end of a partition are evaluated twice."""

SAMPLED_PARTITIONS: Final = 100


def transform_refusals(context: FlowSides, plan: TopicPlan) -> list[str]:
    """Returns why the transforms of a flow must not change the records of *plan*'s topics.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    problems = [
        f"{config.flow}.replication.transforms.{one.name}.{part}: {text}"
        for one in config.transforms
        for part, text in transform_problems(context.spark, one)
    ]
    if problems or not plan.transforms:
        return problems
    unsafe = unsafe_keys(plan, context.source, context.target)
    return [*unsafe.values(), *_unsteady(context, plan)]


def unsafe_keys(plan: TopicPlan, source: Cluster, target: Cluster) -> dict[str, str]:
    """Returns why keys must not change, by upstream topic: the copies are compacted.

    Raises:
        ClusterError: A cluster does not answer.
    """
    changed = {
        topic: names
        for topic, chain in plan.transforms.items()
        if (names := [one.name for one in chain if one.key and not one.injective])
    }
    created = {new.name for new in plan.create}
    found = _compacted(target, {plan.topics[topic] for topic in changed} - created)
    found |= _compacted(source, {topic for topic in changed if plan.topics[topic] in created})
    return {
        topic: f"replication.transforms.{names[0]}.key: {plan.topics[topic]} is compacted "
        "(cleanup.policy), where records whose keys become one delete each other; if different "
        f"keys stay different, write replication.transforms.{names[0]}.key.injective: true"
        for topic, names in changed.items()
        if topic in found or plan.topics[topic] in found
    }


def _compacted(cluster: Cluster, topics: Collection[str]) -> set[str]:
    if not topics:
        return set()
    settings = Rejections().call(cluster.topic_config, topics)
    policies = {name: own.get("cleanup.policy") for name, own in settings.items()}
    return {name for name, own in policies.items() if own and "compact" in (own.value or "")}


def _unsteady(context: FlowSides, plan: TopicPlan) -> list[str]:
    """Returns which topics' last records become something else when they are evaluated again.

    Two queries are analysed anew: within one, the present time and a random seed are fixed.
    """
    config = context.config
    tps = [tp for tp in plan.partitions if tp.topic in plan.transforms][:SAMPLED_PARTITIONS]
    starts, ends = context.source.earliest(tps), context.source.log_ends(tps, config.isolation)
    windows = {
        tp: (max(starts[tp], ends[tp] - SAMPLED_RECORDS), ends[tp])
        for tp in tps
        if tp in ends and starts.get(tp, ends[tp]) < ends[tp]
    }
    if not windows:
        return []
    try:
        first, second = (_digests(context, windows) for _ in range(2))
    except SPARK_ERRORS as error:  # a record may be to blame, and its topic is set aside then
        log.bind(config.flow).info("transforms_not_sampled", text=said(error))
        return []
    topics = sorted(
        {tp.topic for (tp, at), found in first.items() if second.get((tp, at)) != found}
    )
    return [
        f"replication.transforms {', '.join(one.name for one in plan.transforms[topic])}: a record "
        f"of {topic} became two different ones when it was evaluated twice; an expression must "
        "give the same for the same record each time"
        for topic in topics
    ]


def _digests(
    context: FlowSides, windows: Mapping[TopicPartition, tuple[int, int]]
) -> dict[tuple[TopicPartition, int], str]:
    rule = copy_rule(context.config, {tp.topic for tp in windows})
    records = read_windows(context.spark, context.config.source.consumer, windows)
    rows = digested_trial(records, rule.chains).collect()
    return {(TopicPartition(row.topic, row.partition), row.offset): row.digest for row in rows}
