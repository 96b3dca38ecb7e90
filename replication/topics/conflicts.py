"""Flows that must not run side by side: two writers of one topic, or a replication loop. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise

from replication.config.flow_conflicts import END_LOOPS
from replication.config.loops import endless_loops
from replication.config.tree import FlowConfig
from replication.model import Flow
from replication.topics.selection import remote_topics
from replication.topics.topic_plan import TopicPlan

Edges = dict[tuple[str, str], bool]
"""From where to where topics are copied, such as A:t and B:t, as `endless_loops` takes them."""


def find_conflicts(
    flow: Flow, plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> dict[str, str]:
    """Finds why topics of *flow* must not be copied beside other flows, by their upstream names.

    A target topic with two writers is copied at least once, which all of its writers must declare.
    Flows that replicate a topic in a circle, such as two identity flows A->B and B->A, copy its
    records without end. The other flows' plans are without conflicts among each other.

    Args:
        flow: Whose topics are to be left out.
        plans: Each flow's plan.
        cluster_ids: Alias -> the cluster's own id, so that two aliases of one cluster count as one.
    """
    name_of = _names(cluster_ids)
    writers: dict[str, list[Flow]] = defaultdict(list)
    edges: Edges = {}
    for other, plan in sorted(plans.items(), key=lambda item: item[0]):
        if other != flow:
            for start, end, is_ended in _edges(other, plan, name_of):
                writers[end].append(other)
                edges[start, end] = is_ended and edges.get((start, end), True)
    found: dict[str, str] = {}
    own: dict[tuple[str, str], str] = {}
    source, target = name_of[flow.source], name_of[flow.target]
    for name, remote in plans[flow].topics.items():
        start, end = f"{source}:{name}", f"{target}:{remote}"
        others = writers.get(end, [])
        if all(remote in plans[writer].shared for writer in (flow, *others) if others):
            own[start, end] = name
        else:
            found[name] = _two_writers(flow, name, remote, others)
    while own:
        loops = endless_loops(edges | _own_edges(own, plans[flow], edges))
        closing = {edge: path for path in loops for edge in pairwise(path) if edge in own}
        if not closing:
            break
        found |= {own.pop(edge): _loop(path) for edge, path in closing.items()}
    return found


def find_all_conflicts(
    plans: Mapping[Flow, TopicPlan], cluster_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns what `find_conflicts` finds if the flows start in this order, one line each."""
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
    """Returns the replication loop that *flows* would run into, as one line; none if there is none.

    Topics that a flow would create are followed through the other flows, so that a loop is found
    before the first record is copied.

    Args:
        flows: All flows that may run, in this process or in others.
        names: The topics that exist, by the alias of their cluster.
        cluster_ids: As in `find_conflicts`.
    """
    name_of = _names(cluster_ids)
    existing: dict[str, set[str]] = defaultdict(set)
    for alias, topics in names.items():
        existing[name_of[alias]].update(topics)
    edges: Edges = {}
    for _ in flows:  # a topic passes each flow once, unless there is a loop
        for flow in flows:
            source, target = name_of[flow.flow.source], name_of[flow.flow.target]
            remote = remote_topics(flow, existing[source])
            existing[target].update(remote.values())
            for name, copy in remote.items():
                edge = f"{source}:{name}", f"{target}:{copy}"
                is_ended = flow.has_provenance and flow.shares(copy)
                edges[edge] = is_ended and edges.get(edge, True)
    return tuple(_loop(path) for path in endless_loops(edges)[:1])


def _two_writers(flow: Flow, name: str, remote: str, others: Iterable[Flow]) -> str:
    writers = ", ".join(map(str, others))
    return (
        f"flow {writers} writes topic {remote} on cluster {flow.target}, to which {flow} would "
        f"copy {name}; exclude it from all flows but one with topics.exclude, or name {remote} in "
        "replication.aggregate.topics of each of them, which then copy it at least once"
    )


def _names(cluster_ids: Mapping[str, str]) -> dict[str, str]:
    """Returns the first alias of each alias's cluster: two may be of one cluster."""
    first = {uid: alias for alias, uid in sorted(cluster_ids.items(), reverse=True)}
    return {alias: first[uid] for alias, uid in cluster_ids.items()}


def _edges(
    flow: Flow, plan: TopicPlan, name_of: Mapping[str, str]
) -> Iterator[tuple[str, str, bool]]:
    for name, remote in plan.topics.items():
        start, end = f"{name_of[flow.source]}:{name}", f"{name_of[flow.target]}:{remote}"
        yield start, end, plan.ends_loop(remote)


def _own_edges(own: Mapping[tuple[str, str], str], plan: TopicPlan, others: Edges) -> Edges:
    return {
        edge: plan.ends_loop(plan.topics[name]) and others.get(edge, True)
        for edge, name in own.items()
    }


def _loop(path: Iterable[str]) -> str:
    return (
        f"replication loop: {' -> '.join(path)}; exclude the topic from one of these flows with "
        f"topics.exclude, use the default replication policy, or write for each of them {END_LOOPS}"
    )
