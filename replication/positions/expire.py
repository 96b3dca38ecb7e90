"""Finds partitions whose first copies the target would delete at once, by its retention.

Copies have the timestamps of the source, so a shorter retention on the target deletes what is older
as soon as it looks. Only first starts are judged: a decision to copy all the same holds for the
partition from then on. Where a cluster does not show its settings, nothing is judged.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isinf

from replication.config.tree import FlowConfig
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.model import Position, TopicPartition
from replication.offsets.guard import Refusal, expired
from replication.offsets.resume import Decision, StartFresh
from replication.positions.spans import LogSpans
from replication.positions.to_copy import with_old_records
from replication.topics.configs import keeps_for_less, kept_ms
from replication.topics.topic_plan import TopicPlan


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
    fresh = {
        tp: decision.position
        for tp, decision in decisions.items()
        if isinstance(decision, StartFresh) and decision.position.upstream < spans.source_ends[tp]
    }
    return dict(_refusals(config, plan, clusters, spans, fresh))


def _refusals(
    config: FlowConfig,
    plan: TopicPlan,
    clusters: tuple[Cluster, Cluster],
    spans: LogSpans,
    fresh: Mapping[TopicPartition, Position],
) -> Iterator[tuple[TopicPartition, Refusal]]:
    source, target = clusters
    kept = _shorter(config, plan, clusters, {tp.topic for tp in fresh})
    now_ms = time.time_ns() // 1_000_000
    kept_from = source.offsets_for_time(
        {tp: max(0, int(now_ms - kept[tp.topic].target)) for tp in fresh if tp.topic in kept}
    )
    old = {tp: (fresh[tp].upstream, first) for tp, first in kept_from.items()}
    for tp in sorted(with_old_records(config, source, old)):
        position, first, remote = fresh[tp], kept_from[tp], plan.topics[tp.topic]
        text = (
            f"{remote} on {target.alias} keeps records {kept[tp.topic].text}: it would delete "
            f"the copies of source offsets {position.upstream} to {first - 1}, which are older,"
            f" at once. Give {remote} the retention.ms of {tp.topic}"
        )
        span = spans.source(tp)
        yield tp, expired(text, position, min(first, span[1]), span)


def _shorter(
    config: FlowConfig, plan: TopicPlan, clusters: tuple[Cluster, Cluster], topics: set[str]
) -> dict[str, _Kept]:
    """Returns those of *topics* that the target keeps for less time than the source."""
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
