"""List the source's topics, select, create and grow what the target lacks, answer with the plan."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan, plan_topics

log = logging.getLogger(__name__)

SIZE_KEY = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The largest record batch that each side of a topic takes, in bytes."""

    topic: str
    remote: str
    source_bytes: int
    target_bytes: int

    @property
    def is_lower_on_target(self) -> bool:
        """Whether the source may hold records that the target will refuse."""
        return self.target_bytes < self.source_bytes


def prepare_topics(config: FlowConfig, source: Cluster, target: Cluster) -> TopicPlan:
    """Make the target ready for the flow and answer with what to replicate.

    Does nothing twice: where nothing is missing, it only looks. A topic that is deleted on the
    source meanwhile is simply not there; nothing is ever deleted or shrunk on the target.

    Raises:
        GuardError: Source and target are one cluster, or two topics share a remote name.
        ClusterError: A cluster does not answer, or refuses a topic.
    """
    plan = look(config, source, target)
    if plan.problems:
        raise GuardError("\n".join(f"flow {config.flow}: {text}" for text in plan.problems))
    made = target.create_topics(plan.create)
    smaller = {  # somebody else created it at the same moment
        topic.name: topic.partitions
        for topic in plan.create
        if made[topic.name].partitions < topic.partitions
    }
    made |= target.create_partitions({**plan.grow, **smaller})
    for topic in made.values():
        log.info("flow=%s made topic=%s partitions=%d", config.flow, topic.name, topic.partitions)
    made_ids = {name: topic.topic_id for name, topic in made.items()}
    return replace(plan, remote_ids={**plan.remote_ids, **made_ids})


def look(config: FlowConfig, source: Cluster, target: Cluster) -> TopicPlan:
    """What `prepare_topics` would do, without doing it.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    _refuse_one_cluster(config, source, target)
    selected = remote_topics(config, source.topic_names())
    upstream = source.describe(selected)
    downstream = target.describe({selected[name] for name in upstream})
    return plan_topics(
        config,
        upstream,
        downstream,
        _own_size_limits(source, [n for n in upstream if selected[n] not in downstream]),
    )


def size_limits(plan: TopicPlan, source: Cluster, target: Cluster) -> tuple[SizeLimit, ...]:
    """Both sides' limit for every topic of *plan* that exists on both.

    Logs a warning for each topic whose larger records the target would refuse.
    """
    limits = tuple(_limits(plan, source, target))
    for limit in limits:
        if limit.is_lower_on_target:
            log.warning(
                "topic %s on %s takes records up to %d bytes, %s on %s only up to %d: raise "
                "max.message.bytes there, or the flow stops at the first larger record",
                limit.topic, source.alias, limit.source_bytes,
                limit.remote, target.alias, limit.target_bytes,
            )  # fmt: skip
    return limits


def _limits(plan: TopicPlan, source: Cluster, target: Cluster) -> Iterator[SizeLimit]:
    upstream = source.max_message_bytes(plan.topics)
    downstream = target.max_message_bytes(plan.topics.values())
    for topic, remote in plan.topics.items():
        if topic in upstream and remote in downstream:
            yield SizeLimit(topic, remote, upstream[topic], downstream[remote])


def _own_size_limits(source: Cluster, topics: list[str]) -> Mapping[str, Mapping[str, str]]:
    """The size limit of each topic that sets its own, so that its copy takes the same records.

    The other settings are not copied here: that is the config sync's work.
    """
    return {
        topic: {SIZE_KEY: settings[SIZE_KEY].value or ""}
        for topic, settings in source.topic_config(topics, [SIZE_KEY]).items()
        if SIZE_KEY in settings and settings[SIZE_KEY].is_override
    }


def _refuse_one_cluster(config: FlowConfig, source: Cluster, target: Cluster) -> None:
    """Topics copied within a cluster match the flow's own filter and grow for ever (KAFKA-9914)."""
    cluster_id = source.cluster_id()
    if cluster_id == target.cluster_id():
        raise GuardError(
            f"flow {config.flow}: {source.alias} (bootstrap.servers={source.servers}) and "
            f"{target.alias} (bootstrap.servers={target.servers}) are the same Kafka cluster, "
            f"id {cluster_id}; its records would be copied in a circle for ever. Correct one "
            "bootstrap.servers, or disable the flow"
        )
