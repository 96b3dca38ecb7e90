"""Finds the records that the target rejected as too large. Reads both clusters."""

from collections.abc import Mapping

from replication.flows.context import FlowContext
from replication.kafka.reader import read_records
from replication.model import Position, TopicPartition
from replication.topics.topic_plan import TopicPlan

RECORD_OVERHEAD_BYTES = 70
"""About what Kafka's limits count besides a record's bytes: a batch header and the own fields."""


def oversized_records(
    context: FlowContext,
    plan: TopicPlan,
    positions: Mapping[TopicPartition, Position],
) -> list[str]:
    """Describes the next records to replicate that are larger than their remote topic allows.

    Args:
        context: The flow.
        plan: The flow's topics.
        positions: The positions at the target's log end, where the rejected record comes next.

    Returns:
        One line per record: topic, partition, offset, size and both limits.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    of_source = context.source.max_message_bytes(sorted(plan.topics))
    of_target = context.target.max_message_bytes(sorted(plan.topics.values()))
    lines = []
    for tp in plan.partitions:
        remote = plan.topics[tp.topic]
        start = positions[tp].upstream
        for record in read_records(config.source.consumer, tp, start, start + 1, config.isolation):
            parts = [record.key, record.value, *(part for pair in record.headers for part in pair)]
            size = RECORD_OVERHEAD_BYTES + sum(len(part) for part in parts if part is not None)
            if size > of_target[remote]:
                lines.append(
                    f"{tp} offset {record.offset} has {size} bytes: max.message.bytes is "
                    f"{of_source[tp.topic]} on {tp.topic} at {config.flow.source} and "
                    f"{of_target[remote]} on {remote} at {config.flow.target}; raise the latter"
                )
    return lines
