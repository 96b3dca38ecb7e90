"""Which topics a flow replicates and what the target lacks for it. Pure.

Lists of topics come in as values and leave as decisions; nothing is asked, made or read here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from replication.config.tree import FlowConfig
from replication.mm2.filters import NameFilter
from replication.mm2.policy import is_cycle
from replication.model import Flow, NewTopic, Topic, TopicPartition

NOTHING: Mapping[str, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a flow replicates, and what the target needs first.

    Args:
        topics: Upstream name -> remote name.
        create: Remote topics that do not exist.
        grow: Remote topic with fewer partitions than its upstream one -> the count it needs.
        partitions: Every partition to replicate, by its upstream name, sorted.
        source_ids: Upstream name -> topic id on the source.
        remote_ids: Remote name -> topic id on the target, of those that exist.
        problems: Why the plan must not be carried out, one line each.
    """

    topics: Mapping[str, str]
    create: tuple[NewTopic, ...]
    grow: Mapping[str, int]
    partitions: tuple[TopicPartition, ...]
    source_ids: Mapping[str, str]
    remote_ids: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two plans that replicate the same partitions of the same topics.

        What is still to be made on the target does not count: a refresh that differs from the
        running plan only in that needs no new generation.
        """
        return (
            tuple(sorted(self.topics.items())),
            self.partitions,
            tuple(sorted(self.source_ids.items())),
            tuple(sorted(self.remote_ids.items())),
        )


def replicated_topics(config: FlowConfig, names: Iterable[str]) -> tuple[str, ...]:
    """The topics of *names* that the flow copies, sorted.

    Args:
        config: The flow.
        names: Topics of the source, without the ones its brokers call internal.
    """
    wanted = NameFilter(config.topics, config.topics_exclude)
    policy, flow = config.policy, config.flow
    return tuple(
        name
        for name in sorted(set(names))
        if (
            wanted.accepts(name)
            or (config.heartbeats_replication_enabled and policy.is_heartbeats_topic(name))
        )
        and not policy.is_internal_topic(name)
        and not is_cycle(policy, name, source=flow.source, target=flow.target)
    )


def remote_topics(config: FlowConfig, names: Iterable[str]) -> dict[str, str]:
    """Upstream name -> remote name, of those of the source's topic *names* that replicate."""
    source = config.flow.source
    return {
        name: config.policy.remote_topic(source, name) for name in replicated_topics(config, names)
    }


def plan_topics(
    config: FlowConfig,
    source: Mapping[str, Topic],
    target: Mapping[str, Topic],
    configs: Mapping[str, Mapping[str, str]] = NOTHING,
) -> TopicPlan:
    """What to replicate and what to create or grow for it.

    A remote topic with more partitions than its upstream one is left alone.

    Args:
        config: The flow.
        source: The source's topics by name; those the flow does not select are passed over.
        target: The target's topics by name; at least the remote ones that exist.
        configs: Upstream name -> settings that its remote topic is created with.
    """
    topics = remote_topics(config, source)
    create = tuple(
        NewTopic(
            remote,
            source[name].partitions,
            config.replication_factor,
            tuple(sorted(configs.get(name, {}).items())),
        )
        for name, remote in topics.items()
        if remote not in target
    )
    grow = {
        remote: source[name].partitions
        for name, remote in topics.items()
        if remote in target and target[remote].partitions < source[name].partitions
    }
    return TopicPlan(
        topics=topics,
        create=create,
        grow=grow,
        partitions=tuple(
            TopicPartition(name, partition)
            for name in sorted(topics)
            for partition in range(source[name].partitions)
        ),
        source_ids={name: source[name].topic_id for name in topics},
        remote_ids={r: target[r].topic_id for r in topics.values() if r in target},
        problems=tuple(_shared_remotes(topics)),
    )


def _shared_remotes(topics: Mapping[str, str]) -> Iterable[str]:
    upstream = defaultdict(list)
    for name, remote in sorted(topics.items()):
        upstream[remote].append(name)
    for remote, names in upstream.items():
        if len(names) > 1:
            yield (
                f"topics {', '.join(names)} would all be written to {remote}; leave all but one "
                "out with topics.exclude, or choose another replication policy or separator"
            )


def conflicts(plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Why these flows must not run side by side, one line each.

    A target topic with two writers cannot be mapped to offsets of either source. Flows that hand
    a topic on in a circle copy its records for ever, as two identity flows A->B and B->A do.

    Args:
        plans: Each flow's plan.
        cluster_ids: Alias -> the id the cluster gave itself, so that two aliases of one cluster
            count as one.
    """
    writers = defaultdict(list)
    upstream = defaultdict(set)
    for flow, plan in sorted(plans.items(), key=lambda item: item[0]):
        source, target = cluster_ids[flow.source], cluster_ids[flow.target]
        for name, remote in plan.topics.items():
            writers[target, remote].append(flow)
            upstream[target, remote].add((source, name))
    shared = tuple(
        f"flows {', '.join(map(str, flows))} would all write topic {remote} of cluster "
        f"{flows[0].target}; leave it out of all but one with topics.exclude"
        for (_, remote), flows in sorted(writers.items())
        if len(flows) > 1
    )
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        names = sorted(cluster_ids.items(), reverse=True)  # of several aliases the first one
        alias = {cluster_id: name for name, cluster_id in names}
        circle = [f"{alias[cluster_id]}:{topic}" for cluster_id, topic in error.args[1][:-1]]
        first = circle.index(min(circle))
        steps = " -> ".join([*circle[first:], *circle[: first + 1]])
        line = (
            f"records would go in a circle for ever: {steps}; leave the topic out of one of "
            "these flows with topics.exclude, or use the default replication policy"
        )
        return (*shared, line)
    return shared
