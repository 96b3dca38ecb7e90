"""How many records lie in spans of source offsets, where offsets alone do not tell."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from replication.model import TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.runs import OffsetRun
from replication.positions.sides import FlowSides, compared
from replication.spark.counting import count_records
from replication.topics.copy_rule import copy_rule

MOST_COUNTED: Final = 1_000_000
"""Offsets of the spans that are counted together; more are not read."""

Span = tuple[int, int]
"""First offset and end offset."""


def counted_records(
    sides: FlowSides,
    spans: Mapping[TopicPartition, Span],
    maps: Mapping[TopicPartition, Iterable[OffsetRun]],
) -> dict[TopicPartition, int]:
    """Counts the records to be copied in each of *spans*.

    Nothing is read of a span that the offset map shows as dense.

    Args:
        sides: The flow. Its Spark starts if anything is to be read.
        spans: By upstream partition.
        maps: The offset maps of these partitions.

    Returns:
        No entry for a span that is too long to be read.

    Raises:
        ClusterError: The source does not answer.
        SetupError: Spark does not start here.
    """
    config = sides.config
    rule = copy_rule(config, {tp.topic for tp in spans})
    compacted = _compacted(sides, spans)
    found: dict[TopicPartition, int] = {}
    left: dict[TopicPartition, Span] = {}
    room = MOST_COUNTED
    for tp, span in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        width = span[1] - span[0]
        if copies_all(rule) and tp.topic not in compacted and is_dense(span, maps.get(tp, ())):
            found[tp] = width
        elif width < room:
            left[tp] = span
            room -= width
    if left:
        with compared(config.flow):
            counts = count_records(sides.spark, config.source.consumer, left, rule)
        found |= {tp: counts.get(tp, 0) for tp in left}
    return found


def copies_all(rule: CopyRule) -> bool:
    """Returns whether *rule* leaves no record out, whatever fields it has."""
    return replace(rule, timestamps="preserve", mark=None) == CopyRule()


def is_dense(span: Span, runs: Iterable[OffsetRun]) -> bool:
    """Returns whether *runs* say that each offset of *span* had a record."""
    first, until = span
    for run in sorted(run for run in runs if run.is_dense and not run.is_anchor):
        if run.src_from <= first < run.src_until:
            first = run.src_until
    return first >= until


def _compacted(sides: FlowSides, spans: Iterable[TopicPartition]) -> set[str]:
    """Returns the topics of *spans* whose source deletes records in their middle."""
    topics = {tp.topic for tp in spans}
    found = sides.source.topic_config(topics)
    policies = {topic: found.get(topic, {}).get("cleanup.policy") for topic in topics}
    return {t for t, policy in policies.items() if policy is None or "compact" in str(policy.value)}
