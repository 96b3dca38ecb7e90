"""Prepares the target's topics: lists, selects, creates and grows; returns the plan."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from replication.config.tree import FlowConfig
from replication.errors import GuardError
from replication.kafka.cluster import Cluster
from replication.kafka.rejections import Rejections
from replication.kafka.same_cluster import are_one, have_one_id
from replication.log import Log
from replication.model import Topic
from replication.topics.configs import describe_losses, settings_to_create
from replication.topics.in_sync import too_few_in_sync
from replication.topics.list_notes import names_settings, setting_notes, topic_notes
from replication.topics.selection import (
    impossible_copies,
    remote_topics,
    selects_nothing,
)
from replication.topics.topic_plan import TopicPlan, plan_topics
from replication.upkeep.aliased import find_aliased
from replication.upkeep.create import RemoteTopics

log = Log(__name__)

ELECTION_SECONDS = 3.0
"""How long partitions may be without a leader before they are left out: an election is short."""

POLL_SECONDS = 0.1

Reserve = Callable[[TopicPlan], Mapping[str, str]]
"""Why topics of a plan must not be replicated next to those of other flows, by upstream names."""


def reserve_all(_plan: TopicPlan) -> Mapping[str, str]:
    """Reserves all names, for a flow that runs alone."""
    return {}


def prepare_topics(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    without: Collection[str] = (),
    known: Collection[str] = (),
    reserve: Reserve = reserve_all,
) -> TopicPlan:
    """Creates and grows the remote topics that the flow needs, and returns what to replicate.

    Changes nothing if nothing is missing. A topic that was deleted on the source is left out of the
    plan, and so is one that a cluster rejects; nothing is ever deleted or shrunk on the target.

    Args:
        config: The flow.
        source: Its source cluster.
        target: Its target cluster.
        without: Upstream topics to leave alone.
        known: Upstream topics that were replicated or tried before.
        reserve: Tells which topics are kept by other flows, which are neither created nor grown.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    return carry_out(look(config, source, target, without, known), config, target, reserve)


def carry_out(
    plan: TopicPlan, config: FlowConfig, target: Cluster, reserve: Reserve = reserve_all
) -> TopicPlan:
    """Creates and grows what *plan*, which `look` has made, needs on the target.

    Raises:
        ClusterError: The target does not answer.
    """
    left = reserve(plan)
    plan = replace(plan.without(left), left_to_others=left)
    rejections = Rejections()
    missing = RemoteTopics(config.flow, target, plan.create)
    created = rejections.call(missing.create, [topic.name for topic in plan.create])
    smaller = {  # another process created it at the same moment
        topic.name: topic.partitions
        for topic in plan.create
        if topic.name in created and created[topic.name].partitions < topic.partitions
    }
    grow = {**plan.grow, **smaller}
    created |= rejections.call(
        lambda names: target.create_partitions({name: grow[name] for name in names}), grow
    )
    for topic in created.values():
        log.bind(config.flow).info("topic_prepared", topic=topic.name, partitions=topic.partitions)
    new_ids = {name: topic.topic_id for name, topic in created.items()}
    remote_ids = {**plan.remote_ids, **new_ids}
    plan = replace(plan, remote_ids=remote_ids, made=frozenset(missing.made))
    return _without_rejected(plan, {}, rejections.texts)


def look(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    without: Collection[str] = (),
    known: Collection[str] = (),
) -> TopicPlan:
    """Returns the plan that `prepare_topics` would carry out; changes nothing.

    A cluster lists only what its user may see, so a topic whose ACL is lost looks deleted. Asked
    for by name, such a topic is rejected: that is what *known* is for.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    names = source.topic_names()
    shared_id = _check_clusters(config, source, target)
    hidden = remote_topics(config, set(known) - names).keys() - set(without)
    denied = source.denied("READ", hidden)
    if hidden - denied.keys():  # deleted, or granted since the list was made
        names = source.topic_names()
    selected = remote_topics(config, names)
    of_source, of_target = Rejections(), Rejections()
    of_source.texts.update(impossible_copies(config, selected))
    upstream = _describe(source, of_source, selected.keys() - set(without), listed=True)
    of_source.texts.update(denied)
    aliased = find_aliased(config, target, names - set(without))
    of_source.texts.update(aliased.copied)
    downstream = _describe(target, of_target, [selected[name] for name in upstream])
    missing = [name for name in upstream if selected[name] not in downstream]
    settings = of_source.call(source.topic_config, missing)
    plan = plan_topics(
        config,
        upstream,
        downstream,
        {name: settings_to_create(own, config.topic_configs) for name, own in settings.items()},
    )
    plan = replace(
        plan,
        warnings=(*topic_notes(config, names, selected), *_setting_notes(config, source, upstream)),
        shared_id=shared_id,
        left_out=aliased.left_out,
        is_empty=selects_nothing(config, selected),
    )
    return _without_rejected(plan, of_source.texts, of_target.texts)


def _setting_notes(config: FlowConfig, source: Cluster, topics: Collection[str]) -> tuple[str, ...]:
    """Returns the items of ``config.properties.exclude`` that exclude nothing of a topic."""
    some = sorted(topics)[:1] if names_settings(config) else []
    for settings in Rejections().call(source.topic_config, some).values():
        return tuple(setting_notes(config, settings))
    return ()


def _describe(
    cluster: Cluster, rejections: Rejections, names: Collection[str], *, listed: bool = False
) -> dict[str, Topic]:
    """Describes the topics of *names*; waits a moment for the leaders of their partitions."""
    topics = rejections.call(partial(cluster.describe, listed=listed), names)
    deadline = time.monotonic() + ELECTION_SECONDS
    while leaderless := [name for name, topic in topics.items() if topic.leaderless]:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
        topics |= rejections.call(cluster.describe, leaderless)
    return topics


def _without_rejected(
    plan: TopicPlan, upstream: Mapping[str, str], remote: Mapping[str, str]
) -> TopicPlan:
    """Leaves the topics out of *plan* that a cluster rejects, by their upstream or remote names."""
    of_target = {name: remote[copy] for name, copy in plan.topics.items() if copy in remote}
    rejected = {**upstream, **of_target}
    left = plan.without(rejected.keys())
    return replace(left, rejected={**plan.rejected, **rejected})


def without_refused(plan: TopicPlan, target: Cluster) -> TopicPlan:
    """Returns *plan* without the topics that *target* would not create, and why; creates none.

    Raises:
        ClusterError: The target does not answer.
    """
    return _without_rejected(plan, {}, target.refusals(plan.create))


def topic_warnings(plan: TopicPlan, source: Cluster, target: Cluster) -> tuple[str, ...]:
    """Returns the `topic_losses` of *plan*."""
    return tuple(topic_losses(plan.topics, source, target).values())


def topic_losses(topics: Mapping[str, str], source: Cluster, target: Cluster) -> dict[str, str]:
    """Returns one line for each upstream topic whose copy would not keep what it keeps.

    Copied records have the source's timestamps: a shorter retention on the target deletes them at
    once. Of *topics*, by their upstream names, those that do not exist on the target yet, or whose
    settings a cluster does not show, are not judged.
    """
    upstream = Rejections().call(source.topic_config, topics)
    downstream = Rejections().call(target.topic_config, topics.values())
    losses = {
        topic: describe_losses(upstream[topic], downstream[remote])
        for topic, remote in topics.items()
        if topic in upstream and remote in downstream
    }
    return {
        topic: f"topic {topics[topic]} on {target.alias} rejects or deletes records that {topic} "
        f"on {source.alias} keeps: {', '.join(phrases)}; change these settings of "
        f"{topics[topic]}, or accept the loss"
        for topic, phrases in losses.items()
        if phrases
    }


def unwritable_topics(plan: TopicPlan, target: Cluster) -> dict[str, str]:
    """Returns why *target* takes no records for remote topics of *plan* now, by upstream names.

    Topics that do not exist yet, or whose settings the cluster does not show, are not judged.

    Raises:
        ClusterError: The target does not answer.
    """
    rejections = Rejections()
    topics = rejections.call(target.describe, plan.remote_ids)
    settings = rejections.call(target.topic_config, topics)
    found = {
        name: too_few_in_sync(topics[remote], settings[remote], target.alias, target.servers)
        for name, remote in plan.topics.items()
        if remote in topics and remote in settings
    }
    return {name: text for name, text in found.items() if text}


def _check_clusters(config: FlowConfig, source: Cluster, target: Cluster) -> str:
    """Returns a warning if both clusters have one id, although they differ; "" if not.

    Topics copied within a cluster match the flow's own filter and grow forever (KAFKA-9914).

    Raises:
        GuardError: They are one cluster.
    """
    if not have_one_id(source, target):
        return ""
    both = (
        f"{source.alias} (bootstrap.servers={source.servers}) and {target.alias} "
        f"(bootstrap.servers={target.servers})"
    )
    if are_one(source, target):
        raise GuardError(
            f"flow {config.flow}: {both} are the same Kafka cluster (id {source.cluster_id()}); "
            "replicating it to itself would loop forever. Correct one bootstrap.servers, or "
            "disable the flow"
        )
    return (
        f"{both} were formatted with the same cluster id {source.cluster_id()}, but have neither "
        "a broker nor a topic in common, so they are taken for two clusters: give each an id of "
        "its own when it is built anew (kafka-storage random-uuid)"
    )
