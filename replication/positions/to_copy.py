"""Finds which spans of the source hold a record to be copied: offsets alone do not tell.

Compaction and transactions leave offsets without a record, and a record without a time of its own
is not old, because its copy gets the present.
"""

from collections.abc import Callable, Mapping
from typing import Final

from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord
from replication.kafka.cluster import Cluster
from replication.kafka.reader import Reader
from replication.model import TopicPartition
from replication.topics.copy_rule import copy_rule

Span = tuple[int, int]
"""First offset and end offset."""

SEARCHED_OFFSETS: Final = 10_000
"""How far a partition is searched for a record with a time; beyond, the next one counts as one."""


def with_records(
    config: FlowConfig,
    spans: Mapping[TopicPartition, Span],
    counts: Callable[[TopicPartition, KafkaRecord], bool] = lambda _tp, _record: True,
) -> set[TopicPartition]:
    """Returns those of *spans* that hold a record to be copied that *counts*.

    Args:
        config: The flow.
        spans: By upstream partition, none beyond what the flow may read.
        counts: Whether a record is one of those asked for; by default each is.

    Raises:
        ClusterError: The source does not answer.
    """
    found: set[TopicPartition] = set()
    if not any(start < until for start, until in spans.values()):
        return found

    rule = copy_rule(config)

    def visit(tp: TopicPartition, record: KafkaRecord) -> bool:
        if not rule.is_copied(record) or not counts(tp, record):
            return False
        found.add(tp)
        return True

    with Reader(config.source.consumer, config.isolation) as reader:
        reader.visit(spans, visit)
    return found


def with_old_records(
    config: FlowConfig, source: Cluster, spans: Mapping[TopicPartition, Span]
) -> set[TopicPartition]:
    """Returns those of *spans* that hold a record to be copied that has a time of its own.

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
    return with_records(
        config,
        left,
        lambda tp, record: (
            record.timestamp_ms >= 0 or record.offset >= left[tp][0] + SEARCHED_OFFSETS
        ),
    )
