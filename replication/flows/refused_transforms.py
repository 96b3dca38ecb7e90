"""Keeps a flow from transforms whose copies nobody could compare again."""

import pyspark

from replication.config.transforms import chain_text
from replication.errors import ClusterError, GuardError, StateError
from replication.flows.context import FlowContext
from replication.positions.sides import compared
from replication.positions.transform_trial import transform_refusals, unsafe_keys
from replication.state.spark_reader import reader_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look


def refused_transforms(context: FlowContext) -> list[str]:
    """Returns why the flow's transforms must not change a record; nothing without any.

    As with the ids of its clusters, a silent cluster is not waited for. A drain for which no record
    waits that they would change does not start Spark to try them once more.
    """
    clusters = context.source, context.target
    if not context.config.transforms or any(cluster.is_silent for cluster in clusters):
        return []
    try:
        with compared(context.config.flow):
            plan = look(context.config, *clusters)
            left = plan.without_paused(context.steering.paused)
            if context.started_spark is None and _is_done(context, left):
                return [*unsafe_keys(plan, *clusters).values()]
            return transform_refusals(context, plan)
    except (ClusterError, GuardError) as error:  # the flow meets it as well
        context.log.info("transforms_not_sampled", text=error)
        return []


def _is_done(context: FlowContext, plan: TopicPlan) -> bool:
    """Returns whether all topics with transforms are copied, by the transforms of now.

    Raises:
        ClusterError: The source does not answer.
    """
    tps = [tp for tp in plan.partitions if tp.topic in plan.transforms]
    try:
        reader = reader_of(context.tables)
        rows = reader.newest("topics", context.config.flow, ["remote_topic"], ["at"])
        anchors = reader.offsets(context.config.flow).progress().anchors
    except StateError:  # it is not known
        return False
    written = {row["topic"]: row.get("transform") for row in rows}
    ends = context.source.log_ends(tps, context.config.isolation)
    return all(
        written.get(topic) == chain_text(chain, pyspark.__version__)
        for topic, chain in plan.transforms.items()
    ) and all(
        tp in anchors
        and anchors[tp].topic_id == plan.source_ids[tp.topic]
        and anchors[tp].position.upstream == ends.get(tp)
        for tp in tps
    )
