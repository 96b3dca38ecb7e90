"""Why a query failed, in an operator's words, and whether starting it again can help."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.errors import FlowError
from replication.flows.context import FlowContext
from replication.kafka.reader import read_records
from replication.model import Position, TopicPartition
from replication.topics.topic_plan import TopicPlan

RECORD_OVERHEAD_BYTES = 70
"""A batch header and a record's own fields, about: what Kafka's limits count besides the bytes."""


class QueryError(FlowError):
    """A generation's query ended by itself. ``is_final`` means that a restart would fail alike."""

    def __init__(self, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Part of Spark's text, what it means, and whether only a person can mend it."""

    found: str
    meaning: str
    is_final: bool


TOO_LARGE = "RecordTooLargeException"

PATTERNS = (
    _Pattern(TOO_LARGE, "the target refused a record for its size", is_final=True),
    _Pattern(
        "InvalidTopicException",
        "a record reached the producer without its timestamp: the interceptor is not the one of "
        "this version",
        is_final=True,
    ),
    _Pattern(
        "replication.PreserveTimestamps",
        "the interceptor class is not on the executors' class path: pass its jar with --jars, or "
        "set record.timestamps=broker",
        is_final=True,
    ),
    _Pattern("AuthorizationException", "a cluster refused access", is_final=True),
    _Pattern("AuthenticationException", "a cluster refused the credentials", is_final=True),
    _Pattern("KAFKA_DATA_LOSS", "records or topics are gone from the source", is_final=False),
    _Pattern("UnknownTopicOrPartition", "a topic was deleted while it was read", is_final=False),
    _Pattern("not present in metadata", "a remote topic was deleted", is_final=False),
    _Pattern("TimeoutException", "a cluster did not answer in time", is_final=False),
)

_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.\S*?(\w+Exception): ([^\n]+)")


def explain(config: FlowConfig, error: BaseException) -> QueryError:
    """*error*, as Spark gave it, in one or two lines."""
    text = str(error)
    kafka = _KAFKA_ERROR.search(text)
    detail = f"{kafka[1]}: {kafka[2]}" if kafka else text.strip().splitlines()[0]
    for pattern in PATTERNS:
        if pattern.found in text:
            return QueryError(
                f"flow {config.flow}: {pattern.meaning} ({detail})", is_final=pattern.is_final
            )
    return QueryError(f"flow {config.flow}: the query failed: {detail}", is_final=False)


def oversized_records(
    context: FlowContext,
    plan: TopicPlan,
    positions: Mapping[TopicPartition, Position],
) -> list[str]:
    """The records that stand next in line and are larger than their remote topic allows.

    Args:
        context: Both clusters.
        config: The flow.
        plan: Its topics.
        positions: Where the target's log really ends, so that the refused record comes next.

    Returns:
        A line each: topic, partition, offset, size and both limits.
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
