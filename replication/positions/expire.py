"""Finds partitions whose first copies the target would delete at once, by its retention.

Copies have the timestamps of the source, so a shorter retention on the target deletes what is older
as soon as it looks. Only first starts are judged: a decision to copy all the same holds for the
partition from then on. Where a cluster does not show its settings, nothing is judged.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Final, NamedTuple

from replication.config.tree import FlowConfig
from replication.kafka.api import KafkaRecord, Settings
from replication.kafka.cluster import Cluster, Rejections
from replication.kafka.reader import Reader
from replication.model import Position, TopicPartition
from replication.offsets.guard import Decision, Refusal, StartFresh, expired
from replication.positions.flow_clients import FlowClients
from replication.positions.originals import Originals
from replication.positions.survey import LogSpans
from replication.topics.configs import keeps_for_less, kept_ms
from replication.topics.topic_plan import TopicPlan, copy_rule

# Finds which spans of the source hold a record to be copied: offsets alone do not tell.
#
# Compaction and transactions leave offsets without a record, and a record without a time of its
# own is not old, because its copy gets the present.

Span = tuple[int, int]
"""First offset and end offset."""

SEARCHED_OFFSETS: Final = 10_000
"""How far a partition is searched for a record with a time; beyond, the next one counts as one."""


def with_records(context: FlowClients, spans: Mapping[TopicPartition, Span]) -> set[TopicPartition]:
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

    *spans* are from where on records are to be copied, up to the first one that is not old.
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


@dataclass(frozen=True, slots=True)
class _Kept:
    """For how long the two sides of a topic keep a record, in milliseconds."""

    source: float
    target: float

    @property
    def text(self) -> str:
        on_source = "without limit" if isinf(self.source) else f"for {self.source:.0f} ms"
        return f"for {self.target:.0f} ms only ({on_source} on the source)"


def find_expired(
    config: FlowConfig,
    plan: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    spans: LogSpans,
    decisions: Mapping[TopicPartition, Decision],
) -> dict[TopicPartition, Refusal]:
    """Finds the first starts in *decisions* whose first copies the target would delete at once.

    Args:
        config: The flow.
        plan: Its topics.
        clusters: Source and target.
        spans: Of the plan's partitions.
        decisions: Where they start.

    Raises:
        ClusterError: A cluster does not answer.
    """
    source, target = clusters
    fresh = {
        tp: decision.position
        for tp, decision in decisions.items()
        if isinstance(decision, StartFresh) and decision.position.upstream < spans.source_ends[tp]
    }
    kept = _shorter(config, plan, clusters, {tp.topic for tp in fresh})
    now_ms = time.time_ns() // 1_000_000
    kept_from = source.offsets_for_time(
        {tp: max(0, int(now_ms - kept[tp.topic].target)) for tp in fresh if tp.topic in kept}
    )
    old = {tp: (fresh[tp].upstream, first) for tp, first in kept_from.items()}
    found: dict[TopicPartition, Refusal] = {}
    for tp in sorted(with_old_records(config, source, old)):
        position, first, remote = fresh[tp], kept_from[tp], plan.topics[tp.topic]
        text = (
            f"{remote} on {target.alias} keeps records {kept[tp.topic].text}: it would delete "
            f"the copies of source offsets {position.upstream} to {first - 1}, which are older,"
            f" at once. Give {remote} the retention.ms of {tp.topic}"
        )
        span = spans.source(tp)
        found[tp] = expired(text, position, min(first, span[1]), span)
    return found


def _shorter(
    config: FlowConfig, plan: TopicPlan, clusters: tuple[Cluster, Cluster], topics: set[str]
) -> dict[str, _Kept]:
    if not topics or config.record_timestamps == "broker":
        return {}
    source, target = clusters
    upstream = Rejections().call(source.topic_config, topics)
    remotes = [plan.topics[topic] for topic in topics]
    downstream = Rejections().call(target.topic_config, remotes)
    return {
        topic: _Kept(kept_ms(upstream[topic]), kept_ms(downstream[plan.topics[topic]]))
        for topic in topics
        if topic in upstream
        and plan.topics[topic] in downstream
        and keeps_for_less(upstream[topic], downstream[plan.topics[topic]], config.topic_configs)
    }


# Finds paused partitions whose next records the source is about to delete.
#
# A paused partition stands still while retention goes on. Who looks only when it is resumed finds
# that records are gone.

NEAR: Final = 0.1
"""The part of the retention that may be left until a partition is at risk."""

HOUR_MS: Final = 3_600_000


def find_at_risk(
    source: Cluster, next_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str]:
    """Returns why those of *next_offsets* are at risk that are within a tenth of the retention.

    By time that is a record which is older than nine tenths of ``retention.ms``; by size, an offset
    within the first tenth of a log that ``retention.bytes`` has cut already. A partition with
    nothing left to copy is not at risk.

    Args:
        source: The cluster to read from.
        next_offsets: The next offset to copy of paused partitions.

    Raises:
        ClusterError: The source does not answer.
    """
    topics = {tp.topic for tp in next_offsets}
    settings = Rejections().call(source.topic_config, topics)
    deleting = {topic for topic in settings if "delete" in _text(settings[topic], "cleanup.policy")}
    at = {tp: offset for tp, offset in next_offsets.items() if tp.topic in deleting}
    ends, starts = source.log_ends(at), source.earliest(at)
    behind = {
        tp: offset for tp, offset in at.items() if starts.get(tp, 0) <= offset < ends.get(tp, 0)
    }
    now_ms = time.time_ns() // 1_000_000
    kept = {tp: _number(settings[tp.topic], "retention.ms") for tp in behind}
    times = {tp: round(now_ms - (1 - NEAR) * ms) for tp, ms in kept.items() if ms > 0}
    young = source.offsets_for_time(times)
    found = {
        tp: f"records from its next offset {behind[tp]} to {until} are within a tenth of "
        f"retention.ms={kept[tp]} ({kept[tp] / HOUR_MS:g} h) of being deleted"
        for tp, until in young.items()
        if behind[tp] < until
    }
    for tp, offset in behind.items():
        size = ends[tp] - starts[tp]
        is_cut = starts[tp] > 0 and _number(settings[tp.topic], "retention.bytes") > 0
        if is_cut and tp not in found and offset - starts[tp] <= NEAR * size:
            found[tp] = (
                f"its next offset {offset} is {offset - starts[tp]} after the first one that "
                f"retention.bytes has left of {size}"
            )
    return found


def _text(settings: Settings, key: str) -> str:
    setting = settings.get(key)
    return (setting.value if setting else None) or ""


def _number(settings: Settings, key: str) -> int:
    text = _text(settings, key)
    return int(text) if text.lstrip("-").isdecimal() else -1


# Finds records so old that the target's brokers forget who sent them.
#
# A broker knows a batch that is sent again by what it remembers of its producer, and it remembers
# a producer until ``producer.id.expiration.ms`` (a day by default) have passed since the
# *timestamp of its last record*: ``isProducerExpired`` in Kafka's ProducerStateManager. Copied
# records keep their timestamps. So a broker that is stopped cleanly while older records are copied
# has forgotten the producer when it is back, and appends a batch again whose acknowledgement got
# lost.


def describe_old_records(
    context: FlowClients, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
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


def _with_append_time(context: FlowClients, remote_topics: Collection[str]) -> set[str]:
    """Returns those of *remote_topics* whose records get the present from the target."""
    if not remote_topics:
        return set()
    settings = Rejections().call(context.target.topic_config, remote_topics)
    kinds = {topic: own.get("message.timestamp.type") for topic, own in settings.items()}
    return {topic for topic, kind in kinds.items() if kind and kind.value == "LogAppendTime"}


# Finds the records that cannot be copied: too large for the target, or with an impossible time.
#
# Reads both clusters.

RECORD_OVERHEAD_BYTES = 70
"""About what Kafka's limits count besides a record's bytes: a batch header and the own fields."""

LATEST_TIMESTAMP_MS = (2**63 - 1) // 1000
"""Spark's source converts a record's time to microseconds, and fails beyond 64 bits."""


class BadRecord(NamedTuple):
    """Why the next record of a partition cannot be copied, and its offset; None if unknown."""

    text: str
    offset: int | None = None


def rejected_records(
    context: FlowClients, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, BadRecord]:
    """Finds why the next record of partitions cannot be copied, for those where that is so.

    Args:
        context: The flow.
        plan: The flow's topics.
        positions: The positions at the target's log end, where the rejected record comes next.

    Returns:
        Topic, partition, offset and both limits, in one line of each text.

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
            text = f"{record.failure}; {transform_advice(tp.topic)}"
        elif size > of_target[remote]:
            text = (
                f"{tp} offset {record.offset} has {size} bytes: max.message.bytes is "
                f"{of_source[tp.topic]} on {tp.topic} at {config.flow.source} and "
                f"{of_target[remote]} on {remote} at {config.flow.target}; raise the latter"
            )
        else:
            continue
        reasons[tp] = BadRecord(text, record.offset)
    return dict(sorted(reasons.items()))


def transform_advice(topic: str) -> str:
    """Returns what an operator can do where a transform fails on a record of *topic*."""
    return (
        "correct the expression, say what NULL means there with the keys unknown or nullable of "
        f"the transform, or exclude {topic} with topics.exclude"
    )


def _impossible_times(
    config: FlowConfig, spans: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, BadRecord]:
    reasons: dict[TopicPartition, BadRecord] = {}

    def visit(tp: TopicPartition, record: KafkaRecord) -> None:
        if abs(record.timestamp_ms) > LATEST_TIMESTAMP_MS:
            text = (
                f"{tp} offset {record.offset} has timestamp {record.timestamp_ms} ms, Spark "
                f"reads times up to {LATEST_TIMESTAMP_MS} ms from 1970; exclude {tp.topic} with "
                "topics.exclude"
            )
            reasons[tp] = BadRecord(text, record.offset)

    with Reader(config.source.consumer, config.isolation) as reader:
        reader.visit({tp: (at, min(at + 1, end)) for tp, (at, end) in spans.items()}, visit)
    return reasons
