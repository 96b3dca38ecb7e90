"""Finds which spans of the source hold a record to be copied: offsets alone do not tell.

Compaction and transactions leave offsets without a record, and a record without a time of its own
is not old, because its copy gets the present.
"""

from collections.abc import Mapping
from typing import Final

from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import Reader
from replication.model import TopicPartition
from replication.positions.originals import Originals
from replication.positions.sides import FlowSides
from replication.topics.copy_rule import copy_rule

Span = tuple[int, int]
"""First offset and end offset."""

SEARCHED_OFFSETS: Final = 10_000
"""How far a partition is searched for a record with a time; beyond, the next one counts as one."""


def with_records(context: FlowSides, spans: Mapping[TopicPartition, Span]) -> set[TopicPartition]:
    """Returns those of *spans* that hold a record to be copied, or one that a transform fails on.

    Args:
        context: The flow.
        spans: By upstream partition, none beyond what the flow may read.

    Raises:
        ClusterError: The source does not answer.
    """
    filled = {tp: span for tp, span in spans.items() if span[0] < span[1]}
    if not filled:
        return set()
    rule = copy_rule(context.config, {tp.topic for tp in filled})
    with Originals(context, rule) as originals:
        return set(originals.next(filled))


def with_old_records(
    config: FlowConfig, source: Cluster, spans: Mapping[TopicPartition, Span]
) -> set[TopicPartition]:
    """Returns those of *spans* that hold a record to be copied that has a time of its own.

    Whether a transform would drop it is not asked.

    Args:
        config: The flow.
        source: Its source.
        spans: From where on records are to be copied, up to the first one that is not old.

    Raises:
        ClusterError: A cluster does not answer.
    """
    timed = source.offsets_for_time(dict.fromkeys(spans, 0))
    ends = source.log_ends(spans, config.isolation)
    left = {
        tp: (max(start, timed[tp]), min(until, ends[tp]))
        for tp, (start, until) in spans.items()
        if tp in timed and tp in ends
    }
    found, rule = set[TopicPartition](), copy_rule(config, ())

    def visit(tp: TopicPartition, record: KafkaRecord) -> bool:
        is_far = record.offset >= left[tp][0] + SEARCHED_OFFSETS
        is_old = rule.is_copied(record) and (record.timestamp_ms >= 0 or is_far)
        if is_old:
            found.add(tp)
        return is_old

    if any(start < until for start, until in left.values()):
        with Reader(config.source.consumer, config.isolation) as reader:
            reader.visit(left, visit)
    return found
