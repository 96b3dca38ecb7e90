"""Finds records so old that the target's brokers forget who sent them.

A broker knows a batch that is sent again by what it remembers of its producer, and it remembers a
producer until ``producer.id.expiration.ms`` (a day by default) have passed since the *timestamp of
its last record*: ``isProducerExpired`` in Kafka's ProducerStateManager. Copied records keep their
timestamps. So a broker that is stopped cleanly while older records are copied has forgotten the
producer when it is back, and appends a batch again whose acknowledgement got lost.
"""

import time
from collections.abc import Collection, Mapping
from typing import Final

from replication.kafka.rejections import Rejections
from replication.model import Position, TopicPartition
from replication.positions.sides import FlowSides
from replication.positions.to_copy import with_old_records
from replication.topics.topic_plan import TopicPlan

HOUR_MS: Final = 3_600_000


def describe_old_records(
    context: FlowSides, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
) -> str:
    """Warns of records still to be copied that brokers would forget; "" if there are none.

    Offsets without a record, and records without a time of their own, are not old.

    Args:
        context: The flow.
        plan: Its topics.
        positions: Where their partitions resume.

    Raises:
        ClusterError: A cluster does not answer.
    """
    flow = context.config.flow
    if context.config.record_timestamps == "broker":
        return ""
    expiration_ms = context.target.producer_expiration_ms()
    if expiration_ms is None:
        return ""
    oldest_ms = time.time_ns() // 1_000_000 - expiration_ms
    young = context.source.offsets_for_time(dict.fromkeys(positions, oldest_ms))
    spans = {tp: (positions[tp].upstream, offset) for tp, offset in young.items()}
    remotes = {plan.topics[tp.topic] for tp, (start, until) in spans.items() if start < until}
    on_append = _with_append_time(context, remotes)
    spans = {tp: span for tp, span in spans.items() if plan.topics[tp.topic] not in on_append}
    old = with_old_records(context.config, context.source, spans)
    if not old:
        return ""
    some = max(old, key=lambda tp: young[tp] - positions[tp].upstream)
    return (
        f"{len(old)} of {len(positions)} partitions have records to copy that are older than "
        f"{expiration_ms / HOUR_MS:g} h: {some} up to offset {young[some]}. A broker of "
        f"{flow.target} that is stopped while they are copied forgets their producer "
        f"(producer.id.expiration.ms={expiration_ms}) and may write a batch twice. Until they are "
        f"copied, restart no broker of {flow.target}, or raise that setting there"
    )


def _with_append_time(context: FlowSides, remote_topics: Collection[str]) -> set[str]:
    """Returns those of *remote_topics* whose records get the present from the target."""
    if not remote_topics:
        return set()
    settings = Rejections().call(context.target.topic_config, remote_topics)
    kinds = {topic: own.get("message.timestamp.type") for topic, own in settings.items()}
    return {topic for topic, kind in kinds.items() if kind and kind.value == "LogAppendTime"}
