"""What a drain has to read: the partitions that have something new."""

from collections.abc import Mapping

from replication.flows.context import FlowContext
from replication.model import Position, TopicPartition
from replication.topics.topic_plan import TopicPlan


def with_news(
    context: FlowContext, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
) -> TopicPlan:
    """Returns what of *plan* a drain must read: partitions not yet at their ends.

    A task with a consumer and a producer for each of the others would find nothing.

    Raises:
        ClusterError: The source does not answer.
    """
    flow = context.config.flow
    ends = context.source.log_ends(plan.partitions)
    news = {tp for tp in plan.partitions if ends.get(tp) != positions[tp].upstream}
    context.log.info("drain_begun", partitions=len(news), of=len(positions))
    if not news:
        context.head_start.end(flow)
    return plan.only(news)
