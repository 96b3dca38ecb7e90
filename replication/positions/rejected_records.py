"""Finds the records that cannot be copied: too large for the target, or with an impossible time.

Reads both clusters.
"""

from collections.abc import Mapping

from replication.kafka.api import KafkaRecord
from replication.kafka.reader import Reader
from replication.model import Position, TopicPartition
from replication.positions.sides import FlowSides
from replication.topics.copy_rule import copy_rule
from replication.topics.topic_plan import TopicPlan

RECORD_OVERHEAD_BYTES = 70
"""About what Kafka's limits count besides a record's bytes: a batch header and the own fields."""

LATEST_TIMESTAMP_MS = (2**63 - 1) // 1000
"""Spark's source converts a record's time to microseconds, and fails beyond 64 bits."""


def rejected_records(
    context: FlowSides,
    plan: TopicPlan,
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, str]:
    """Finds why the next record of partitions cannot be copied, for those where that is so.

    Args:
        context: The flow.
        plan: The flow's topics.
        positions: The positions at the target's log end, where the rejected record comes next.

    Returns:
        Topic, partition, offset and both limits, in one line.

    Raises:
        ClusterError: A cluster does not answer.
    """
    config = context.config
    of_source = context.source.max_message_bytes(sorted(plan.topics))
    of_target = context.target.max_message_bytes(sorted(plan.topics.values()))
    wanted = {
        tp
        for tp in positions.keys() & set(plan.partitions)
        # a topic may have been deleted since it was planned
        if tp.topic in of_source and plan.topics[tp.topic] in of_target
    }
    ends = context.source.log_ends(wanted, config.isolation)
    rule, reasons = copy_rule(config), dict[TopicPartition, str]()

    def visit(tp: TopicPartition, record: KafkaRecord) -> None:
        remote = plan.topics[tp.topic]
        size = RECORD_OVERHEAD_BYTES + rule.copy_of(record).size
        if rule.is_copied(record) and size > of_target[remote]:
            reasons[tp] = (
                f"{tp} offset {record.offset} has {size} bytes: max.message.bytes is "
                f"{of_source[tp.topic]} on {tp.topic} at {config.flow.source} and "
                f"{of_target[remote]} on {remote} at {config.flow.target}; raise the latter"
            )
        elif record.timestamp_ms > LATEST_TIMESTAMP_MS:
            reasons[tp] = (
                f"{tp} offset {record.offset} has timestamp {record.timestamp_ms} ms, Spark "
                f"reads records up to {LATEST_TIMESTAMP_MS} ms; exclude {tp.topic} with "
                "topics.exclude"
            )

    starts = {tp: positions[tp].upstream for tp in wanted}
    with Reader(config.source.consumer, config.isolation) as reader:
        reader.visit({tp: (at, min(at + 1, ends.get(tp, at))) for tp, at in starts.items()}, visit)
    return dict(sorted(reasons.items()))
