"""Flows that must not run side by side: two writers of one topic, or a replication loop. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from replication.config.tree import FlowConfig
from replication.model import Flow
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan

ClusterTopic = tuple[str, str]
"""A cluster's own id and a topic on it."""


def find_conflicts(
    plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """Why these flows must not run side by side, one line each.

    A target topic with two writers cannot be mapped to the offsets of either source. Flows that
    replicate a topic in a circle, such as two identity flows A->B and B->A, copy its records
    without end.

    Args:
        plans: Each flow's plan.
        cluster_ids: Alias -> the cluster's own id, so that two aliases of one cluster count as one.
    """
    writers: dict[ClusterTopic, list[Flow]] = defaultdict(list)
    upstream: dict[ClusterTopic, set[ClusterTopic]] = defaultdict(set)
    for flow, plan in sorted(plans.items(), key=lambda item: item[0]):
        source, target = cluster_ids[flow.source], cluster_ids[flow.target]
        for name, remote in plan.topics.items():
            writers[target, remote].append(flow)
            upstream[target, remote].add((source, name))
    return (*_shared_targets(writers), *_loops(upstream, cluster_ids))


def find_topic_loops(
    flows: Collection[FlowConfig],
    names: Mapping[str, Collection[str]],
    cluster_ids: Mapping[str, str],
) -> tuple[str, ...]:
    """The replication loop that *flows* would run into, as one line; none if there is none.

    Topics that a flow would create are followed through the other flows, so that a loop is found
    before the first record is copied.

    Args:
        flows: All flows that may run, in this process or in others.
        names: The topics that exist, by the alias of their cluster.
        cluster_ids: As in `find_conflicts`.
    """
    existing: dict[str, set[str]] = defaultdict(set)
    for alias, topics in names.items():
        existing[cluster_ids[alias]].update(topics)
    upstream: dict[ClusterTopic, set[ClusterTopic]] = defaultdict(set)
    for _ in flows:  # a topic passes each flow once, unless there is a loop
        for flow in flows:
            source, target = (cluster_ids[it] for it in (flow.flow.source, flow.flow.target))
            remote = remote_topics(flow, existing[source])
            existing[target].update(remote.values())
            for name, copy in remote.items():
                upstream[target, copy].add((source, name))
    return tuple(_loops(upstream, cluster_ids))


def _shared_targets(writers: Mapping[ClusterTopic, list[Flow]]) -> Iterator[str]:
    for (_, remote), flows in sorted(writers.items()):
        if len(flows) > 1:
            yield (
                f"flows {', '.join(map(str, flows))} would all write topic {remote} on cluster "
                f"{flows[0].target}; exclude it from all but one with topics.exclude"
            )


def _loops(
    upstream: Mapping[ClusterTopic, set[ClusterTopic]], cluster_ids: Mapping[str, str]
) -> Iterator[str]:
    """The first loop found, as a path that starts at its smallest name."""
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        names = sorted(cluster_ids.items(), reverse=True)  # of several aliases the first one counts
        alias = {cluster_id: name for name, cluster_id in names}
        loop = [f"{alias[cluster_id]}:{topic}" for cluster_id, topic in error.args[1][:-1]]
        first = loop.index(min(loop))
        path = " -> ".join([*loop[first:], *loop[: first + 1]])
        yield (
            f"replication loop: {path}; exclude the topic from one of these flows with "
            "topics.exclude, or use the default replication policy"
        )
