"""Flows that must not run side by side: two writers of one topic, or a replication loop. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from replication.config.tree import FlowConfig
from replication.model import Flow
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan

ClusterTopic = tuple[str, str]
"""A cluster's own id and a topic on it."""


def find_conflicts(
    flow: Flow, plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> dict[str, str]:
    """Why topics of *flow* must not be replicated beside the other flows, by their upstream names.

    A target topic with two writers is copied at least once, which all of its writers must declare.
    Flows that replicate a topic in a circle, such as two identity flows A->B and B->A, copy its
    records without end. The other flows' plans are without conflicts among each other.

    Args:
        flow: Whose topics are to be left out.
        plans: Each flow's plan.
        cluster_ids: Alias -> the cluster's own id, so that two aliases of one cluster count as one.
    """
    writers: dict[ClusterTopic, dict[Flow, str]] = defaultdict(dict)
    upstream: dict[ClusterTopic, set[ClusterTopic]] = defaultdict(set)
    source, target = cluster_ids[flow.source], cluster_ids[flow.target]
    for other, plan in sorted(plans.items(), key=lambda item: item[0]):
        if other != flow:
            at = cluster_ids[other.source], cluster_ids[other.target]
            for name, remote in plan.topics.items():
                writers[at[1], remote][other] = name
                upstream[at[1], remote].add((at[0], name))
    found: dict[str, str] = {}
    for name, remote in sorted(plans[flow].topics.items()):
        others = writers.get((target, remote), {})
        if others and not all(remote in plans[writer].shared for writer in (flow, *others)):
            found[name] = _two_writers(flow, name, remote, others)
            continue
        upstream[target, remote].add((source, name))
        for line in _loops(upstream, cluster_ids):
            found[name] = line
            upstream[target, remote].discard((source, name))
    return found


def find_all_conflicts(
    plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """What `find_conflicts` finds if the flows start in this order, one line each."""
    lines: list[str] = []
    admitted: dict[Flow, TopicPlan] = {}
    for flow, plan in plans.items():
        found = find_conflicts(flow, {**admitted, flow: plan}, cluster_ids)
        lines += (f"{flow}: {text}" for text in found.values())
        admitted[flow] = plan.without(found)
    return tuple(lines)


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


def _two_writers(flow: Flow, name: str, remote: str, others: Iterable[Flow]) -> str:
    writers = ", ".join(map(str, others))
    return (
        f"flow {writers} writes topic {remote} on cluster {flow.target}, to which {flow} would "
        f"copy {name}; exclude it from all flows but one with topics.exclude, or name {remote} in "
        "replication.aggregate.topics of each of them, which then copy it at least once"
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
