"""Prepares the target's topics: lists, selects, creates and grows; returns the plan."""

from collections.abc import Mapping
from dataclasses import replace

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.log import Log
from replication.model import Flow, NewTopic
from replication.topics.configs import describe_losses, settings_to_create, topic_to_retry
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan, plan_topics

log = Log(__name__)


def prepare_topics(config: FlowConfig, source: Cluster, target: Cluster) -> TopicPlan:
    """Creates and grows the remote topics that the flow needs, and returns what to replicate.

    Changes nothing if nothing is missing. A topic that was deleted on the source is left out of the
    plan; nothing is ever deleted or shrunk on the target.

    Raises:
        GuardError: Source and target are one cluster, or two topics share a remote name.
        ClusterError: A cluster does not answer or rejects a topic.
    """
    plan = look(config, source, target)
    if plan.problems:
        raise GuardError("\n".join(f"flow {config.flow}: {text}" for text in plan.problems))
    rejected = _RejectedSettings()
    created = target.create_topics(plan.create, rejected.simplify)
    rejected.log(config.flow)
    smaller = {  # another process created it at the same moment
        topic.name: topic.partitions
        for topic in plan.create
        if created[topic.name].partitions < topic.partitions
    }
    created |= target.create_partitions({**plan.grow, **smaller})
    for topic in created.values():
        log.info("topic_prepared", flow=config.flow, topic=topic.name, partitions=topic.partitions)
    new_ids = {name: topic.topic_id for name, topic in created.items()}
    return replace(plan, remote_ids={**plan.remote_ids, **new_ids})


def look(config: FlowConfig, source: Cluster, target: Cluster) -> TopicPlan:
    """The plan that `prepare_topics` would carry out; changes nothing.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    _reject_one_cluster(config, source, target)
    selected = remote_topics(config, source.topic_names())
    upstream = source.describe(selected, listed=True)
    downstream = target.describe({selected[name] for name in upstream})
    return plan_topics(
        config,
        upstream,
        downstream,
        _settings_to_create(config, source, [n for n in upstream if selected[n] not in downstream]),
    )


def topic_warnings(plan: TopicPlan, source: Cluster, target: Cluster) -> tuple[str, ...]:
    """One line for each remote topic that would not keep what its source topic keeps.

    Copied records have the source's timestamps: a shorter retention on the target deletes them at
    once. Topics of *plan* that do not exist on the target yet are not judged.
    """
    upstream = source.topic_config(plan.topics)
    downstream = target.topic_config(plan.topics.values())
    losses = {
        topic: describe_losses(upstream[topic], downstream[remote])
        for topic, remote in plan.topics.items()
        if topic in upstream and remote in downstream
    }
    return tuple(
        f"topic {plan.topics[topic]} on {target.alias} rejects or deletes records that {topic} on "
        f"{source.alias} keeps: {', '.join(phrases)}; change these settings of "
        f"{plan.topics[topic]}, or accept the loss"
        for topic, phrases in losses.items()
        if phrases
    )


def _settings_to_create(
    config: FlowConfig, source: Cluster, topics: list[str]
) -> Mapping[str, Mapping[str, str]]:
    return {
        topic: settings_to_create(settings, config.topic_configs)
        for topic, settings in source.topic_config(topics).items()
    }


class _RejectedSettings:
    """Retries the creation of topics without the settings that the target rejects."""

    def __init__(self) -> None:
        self._rejected: list[tuple[str, str, str, str]] = []

    def simplify(self, topic: NewTopic, reason: str) -> NewTopic | None:
        simpler = topic_to_retry(topic, reason)
        if simpler is not None:
            self._rejected += (
                (topic.name, key, value, reason)
                for key, value in topic.configs
                if (key, value) not in simpler.configs
            )
        return simpler

    def log(self, flow: Flow) -> None:
        for topic, key, value, reason in self._rejected:
            log.warning(
                "setting_rejected",
                flow=flow,
                topic=topic,
                key=key,
                value=value,
                text=f"the topic was created without this setting: {reason}",
            )


def _reject_one_cluster(config: FlowConfig, source: Cluster, target: Cluster) -> None:
    """Topics copied within a cluster match the flow's own filter and grow forever (KAFKA-9914)."""
    cluster_id = source.cluster_id()
    if cluster_id == target.cluster_id():
        raise GuardError(
            f"flow {config.flow}: {source.alias} (bootstrap.servers={source.servers}) and "
            f"{target.alias} (bootstrap.servers={target.servers}) are the same Kafka cluster "
            f"(id {cluster_id}); replicating it to itself would loop forever. Correct one "
            "bootstrap.servers, or disable the flow"
        )
