"""Checks flows against each other, before any cluster is asked. Pure.

Only what the lists say in writing is compared, names and equal regexes: which topics a regex
matches is known at run time, and `replication.topics.topic_plan` checks it then.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

from replication.config.topic_settings import STATUS_TOPIC
from replication.config.tree import FlowConfig
from replication.config.values import Diagnostics
from replication.mm2.filters import NameFilter
from replication.mm2.policy import IdentityPolicy
from replication.model import Flow


def endless_loops(edges: Mapping[tuple[str, str], bool]) -> list[tuple[str, ...]]:
    """Returns the loops along *edges* that some record would follow again and again.

    Args:
        edges: From where to where records are copied, and whether the flow neither copies a record
            back nor leaves out to say where it comes from. A loop ends if all of its flows do so.

    Returns:
        One shortest loop through each edge that does not, as nodes from the smallest one back to
        it; the same loop once.
    """
    following: dict[str, list[str]] = defaultdict(list)
    for start, end in sorted(edges):
        following[start].append(end)
    loops: dict[tuple[str, ...], None] = {}
    for (start, end), is_ended in sorted(edges.items()):
        path = None if is_ended else _shortest(following, end, start)
        if path:
            first = path.index(min(path))
            loops[path[first:] + path[: first + 1]] = None
    return list(loops)


def _shortest(following: Mapping[str, list[str]], start: str, goal: str) -> tuple[str, ...] | None:
    came_from: dict[str, str] = {}
    waiting = deque([start])
    known = {start}
    while waiting:
        node = waiting.popleft()
        if node == goal:
            path = [node]
            while node != start:
                node = came_from[node]
                path.append(node)
            return tuple(reversed(path))
        for after in following.get(node, ()):
            if after not in known:
                known.add(after)
                came_from[after] = node
                waiting.append(after)
    return None


END_LOOPS: Final = (
    "replication.provenance.header.enabled=true and the topics in replication.aggregate.topics"
)
"""What lets flows copy a topic in a circle."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def check_flows(diagnostics: Diagnostics, flows: Iterable[FlowConfig]) -> None:
    """Checks that no two identity flows write one topic, and that none form a replication loop."""
    flows = tuple(flows)
    _check_status_topics(diagnostics, flows)
    # What a class of the user's makes of a name is asked at the start.
    flows = tuple(flow for flow in flows if not flow.custom_classes)
    _check_growing_names(diagnostics, flows)
    identity = [flow for flow in flows if isinstance(flow.policy, IdentityPolicy)]
    for one, other in combinations(identity, 2):
        _check_writers(diagnostics, one, other)
    paths: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for item in sorted({item for flow in identity for item in flow.topics}):
        edges = {
            (flow.flow.source, flow.flow.target): _ends_loops(flow, item)
            for flow in identity
            if _replicates(flow, item)
        }
        for path in endless_loops(edges):
            paths[path].append(item)
    for path, items in paths.items():
        closing = Flow(path[-2], path[-1])
        diagnostics.problem(
            f"{closing}.topics",
            f"replication loop: {' -> '.join(path)} would copy {', '.join(items)} without end "
            f"under IdentityReplicationPolicy; use {closing}.topics.exclude, or for each of "
            f"these flows {END_LOOPS}",
        )


def _check_status_topics(diagnostics: Diagnostics, flows: Iterable[FlowConfig]) -> None:
    """Checks that each flow has a status topic of its own: Connect's keys do not name the flow."""
    writers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for flow in flows:
        if flow.status.storage_topic:
            writers[flow.flow.target, flow.status.storage_topic].append(str(flow.flow))
    for (target, topic), names in writers.items():
        if len(names) > 1:
            diagnostics.warning(
                STATUS_TOPIC,
                f"{', '.join(names)} would all write topic {topic} on {target}, where each "
                "replaces the status of the others; remove the key, or write "
                f"{names[-1]}.{STATUS_TOPIC}",
            )


def _check_growing_names(diagnostics: Diagnostics, flows: Iterable[FlowConfig]) -> None:
    """Checks that names do not grow: without a separator a remote topic is not recognised.

    Such a topic returns with another prefix.
    """
    prefixed = {
        (flow.flow.source, flow.flow.target): False
        for flow in flows
        if not isinstance(flow.policy, IdentityPolicy)
        and flow.policy.remote_topic("", "") == ""
        and not all(_NAME.fullmatch(item) for item in flow.topics)
    }
    for path in endless_loops(prefixed):
        closing = Flow(path[-2], path[-1])
        diagnostics.problem(
            f"{closing}.replication.policy.separator",
            f"replication loop: {' -> '.join(path)} would copy topics without end, because "
            "an empty separator hides where they come from; write a separator, or name the topics",
        )


def _check_writers(diagnostics: Diagnostics, one: FlowConfig, other: FlowConfig) -> None:
    pair = (one, other)
    names = {item for item in (*one.topics, *other.topics) if _NAME.fullmatch(item)}
    copied = sorted(name for name in names if all(_accepts(flow, name) for flow in pair))
    # unless both say of the remote topic that it has several writers
    shared = [
        name
        for name in copied
        if not all(flow.shares(flow.policy.remote_topic(flow.flow.source, name)) for flow in pair)
    ]
    if one.flow.target == other.flow.target and shared:
        diagnostics.problem(
            f"{other.flow}.topics",
            f"{', '.join(shared)} would be written by {one.flow} too, and a topic can have only "
            f"one writer; use {other.flow}.topics.exclude, or name it in "
            "replication.aggregate.topics of both flows, which then copy it at least once",
        )


def _ends_loops(flow: FlowConfig, item: str) -> bool:
    """Also that its mark tells the other flows where a record has been."""
    is_shared = flow.shares(item) if _NAME.fullmatch(item) else item in flow.aggregate_topics
    return flow.has_provenance and (is_shared or ".*" in flow.aggregate_topics)


def _replicates(flow: FlowConfig, item: str) -> bool:
    """Returns whether *flow* replicates what *item* names; a regex is in its list word for word."""
    return _accepts(flow, item) if _NAME.fullmatch(item) else item in flow.topics


def _accepts(flow: FlowConfig, name: str) -> bool:
    return NameFilter(flow.topics, flow.topics_exclude).accepts(name)
