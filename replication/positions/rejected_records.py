"""Finds the records that cannot be copied: too large for the target, or with an impossible time.

Reads both clusters.
"""

from collections.abc import Mapping

from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord
from replication.kafka.reader import Reader
from replication.model import Position, TopicPartition
from replication.positions.originals import Originals
from replication.positions.sides import FlowSides
from replication.positions.to_copy import SEARCHED_OFFSETS
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
    starts = {tp: positions[tp].upstream for tp in wanted}
    reasons = _impossible_times(config, {tp: (at, ends.get(tp, at)) for tp, at in starts.items()})
    rule = copy_rule(config, {tp.topic for tp in wanted})
    # what transforms drop is passed over; of other topics the next record is at the position
    width = {
        tp: SEARCHED_OFFSETS if tp.topic in rule.chains else 1 for tp in wanted - reasons.keys()
    }
    spans = {tp: (starts[tp], min(starts[tp] + width[tp], ends.get(tp, 0))) for tp in width}
    with Originals(context, rule) as originals:
        found = originals.next({tp: span for tp, span in spans.items() if span[0] < span[1]})
    for tp, record in found.items():
        remote, size = plan.topics[tp.topic], RECORD_OVERHEAD_BYTES + record.size
        if record.failure:
            reasons[tp] = f"{record.failure}; {transform_advice(tp.topic)}"
        elif size > of_target[remote]:
            reasons[tp] = (
                f"{tp} offset {record.offset} has {size} bytes: max.message.bytes is "
                f"{of_source[tp.topic]} on {tp.topic} at {config.flow.source} and "
                f"{of_target[remote]} on {remote} at {config.flow.target}; raise the latter"
            )
    return dict(sorted(reasons.items()))


def transform_advice(topic: str) -> str:
    """Returns what an operator can do where a transform fails on a record of *topic*."""
    return (
        "correct the expression, say what NULL means there with the keys unknown or nullable of "
        f"the transform, or exclude {topic} with topics.exclude"
    )


def _impossible_times(
    config: FlowConfig, spans: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, str]:
    """Returns why Spark cannot read the record at the start of *spans*, where that is so."""
    reasons: dict[TopicPartition, str] = {}

    def visit(tp: TopicPartition, record: KafkaRecord) -> None:
        if abs(record.timestamp_ms) > LATEST_TIMESTAMP_MS:
            reasons[tp] = (
                f"{tp} offset {record.offset} has timestamp {record.timestamp_ms} ms, Spark "
                f"reads times up to {LATEST_TIMESTAMP_MS} ms from 1970; exclude {tp.topic} with "
                "topics.exclude"
            )

    with Reader(config.source.consumer, config.isolation) as reader:
        reader.visit({tp: (at, min(at + 1, end)) for tp, (at, end) in spans.items()}, visit)
    return reasons
