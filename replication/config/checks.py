"""Checks of a whole configuration: of each flow, and of flows against each other. Pure."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, cast

from replication.config.client_keys import ROLES, find_jaas_problem
from replication.config.client_properties import SERVERS_EXAMPLE
from replication.config.field_keys import TARGETS
from replication.config.keys import KEYS
from replication.config.schema_settings import (
    MODE,
    TOPICS,
    UNFRAMED,
    SchemasConfig,
    SchemasMode,
    Unframed,
    registry_of,
    registry_problems,
    schema_problems,
)
from replication.config.scopes import FlowValues, Scopes
from replication.config.topic_settings import LETTERS_TOPIC, STATUS_TOPIC
from replication.config.transforms import PREFIX, TRANSFORMS, end_of, read_transforms
from replication.config.tree import FlowConfig, MirrorConfig
from replication.config.values import Diagnostics, items, text
from replication.mm2.filters import NameFilter
from replication.mm2.policy import POLICY, IdentityPolicy
from replication.model import Flow, Job, Location, is_local_mode, runs

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OWN_TOPICS: Final = re.compile(
    r"__.*|(.*[._-])?(heartbeats|checkpoints[._-]internal)|mm2-(offset-syncs|status)[._-].*"
)
_LOCATIONS: Final[tuple[Location, ...]] = ("source", "target")


def check_clusters(diagnostics: Diagnostics, scopes: Scopes) -> None:
    """Checks that every cluster has broker addresses, and that something runs."""
    for alias in scopes.clusters:
        if "bootstrap.servers" not in scopes.by_cluster[alias]:
            diagnostics.problem(
                f"{alias}.bootstrap.servers", f"missing; write for example {SERVERS_EXAMPLE}"
            )
        for name, problem in registry_problems(registry_of(scopes.by_cluster[alias])):
            diagnostics.problem(f"{alias}.{name}", problem)
    targets = items(scopes.top.get(TARGETS, ""))
    unknown = [alias for alias in targets if alias not in scopes.clusters]
    for alias in unknown:
        diagnostics.problem(
            TARGETS, f"unknown cluster {alias!r}; clusters: {', '.join(scopes.clusters)}"
        )
    if scopes.clusters and not unknown:
        _check_enabled(diagnostics, [FlowValues(scopes, flow) for flow in scopes.pairs])


def _check_enabled(diagnostics: Diagnostics, pairs: Sequence[FlowValues]) -> None:
    """Checks that a flow is enabled; without one all pairs' heartbeats run, as in MirrorMaker 2."""
    enabled = [values for values in pairs if values.flag("enabled")]
    if any(values.is_chosen for values in enabled):
        return
    of_file = sorted(pairs, key=lambda values: not values.own)  # first those that the file names
    key = TARGETS if enabled else f"{next((pair.flow for pair in of_file), Flow('A', 'B'))}.enabled"
    what = "no enabled flow has one of these targets" if enabled else "no flow is enabled"
    if any(values.is_chosen and values.flag("emit.heartbeats.enabled") for values in pairs):
        diagnostics.warning(key, f"{what}: only heartbeats are emitted")
    else:
        advice = "add one" if enabled else "write true for at least one"
        diagnostics.problem(key, f"{what}, and no heartbeats; {advice}")


def check_flow(diagnostics: Diagnostics, values: FlowValues) -> None:
    _check_offset_syncs(diagnostics, values)
    _check_separator(diagnostics, values)
    _check_deletions(diagnostics, values)
    for name in (STATUS_TOPIC, LETTERS_TOPIC):
        _check_topic_name(diagnostics, values, name)
    _check_letters_topic(diagnostics, values)
    _check_transforms(diagnostics, values)
    _check_schemas(diagnostics, values)
    for name, problem in values.limits.problems:
        diagnostics.problem(values.key(name), problem)
    if values.flag("enabled") and not values.items("topics"):
        what = "heartbeats only" if values.flag("heartbeats.replication.enabled") else "nothing"
        diagnostics.warning(
            values.key("topics"),
            f"is empty: {values.flow} replicates {what} ('.*' matches every topic)",
        )
    for location in _LOCATIONS:
        problems = {find_jaas_problem(values.client(location, role)) for role in ROLES}
        for problem in sorted(filter(None, problems)):
            diagnostics.problem(f"{values.alias(location)}.sasl.jaas.config", problem)
        _check_security(diagnostics, values, location)


def _check_offset_syncs(diagnostics: Diagnostics, values: FlowValues) -> None:
    if values.flag("emit.offset-syncs.enabled"):
        return
    for settings in (values.own, values.scopes.top):
        for name in settings:
            if name.startswith("offset-syncs.topic."):
                diagnostics.unused(
                    values.key(name), "has no effect: emit.offset-syncs.enabled is false"
                )


def _check_separator(diagnostics: Diagnostics, values: FlowValues) -> None:
    name = "replication.policy.separator"
    separator, key = values.text(name), values.key(name)
    if not re.fullmatch(r"[A-Za-z0-9._-]*", separator):
        displayed = diagnostics.display(key, separator)
        hint = "; quotes are part of a value here" if set(separator) & set("\"'") else ""
        diagnostics.problem(
            key, f"{displayed} is not allowed in a topic name; use A-Z a-z 0-9 . _ -{hint}"
        )
    elif separator == "" and values.keeps_names_by_empty_alias:
        diagnostics.note(key, "with an empty source.cluster.alias: IdentityReplicationPolicy")
    elif separator == "" and not values.is_identity:
        example = values.flow.source + "orders"
        diagnostics.warning(
            key,
            f"is empty, so that topics get names like {example} whose origin cannot be recognised; "
            "write IdentityReplicationPolicy as replication.policy.class to keep names",
        )


def _check_topic_name(diagnostics: Diagnostics, values: FlowValues, name: str) -> None:
    topic, key = values.text(name).strip(), values.key(name)
    if topic and not _TOPIC_NAME.fullmatch(topic):
        diagnostics.problem(
            key,
            f"{diagnostics.display(key, topic)} is not a topic's name; use at most 249 of A-Z a-z "
            "0-9 . _ -",
        )


def _check_letters_topic(diagnostics: Diagnostics, values: FlowValues) -> None:
    """Checks that letters have a topic of their own: a compacted one would lose some of them."""
    topic, key = values.text(LETTERS_TOPIC).strip(), values.key(LETTERS_TOPIC)
    if topic and (topic == values.text(STATUS_TOPIC).strip() or _OWN_TOPICS.fullmatch(topic)):
        diagnostics.problem(
            key,
            f"{diagnostics.display(key, topic)} is a topic that mirrors, or Kafka, write for "
            f"themselves; write another name, or remove the key for "
            f"{values.flow.source}.dead-letters.internal",
        )


def _check_transforms(diagnostics: Diagnostics, values: FlowValues) -> None:
    for key, problem in read_transforms(*values.transform_settings).problems:
        is_shared = key not in values.own and key in values.scopes.top
        diagnostics.problem(key if is_shared else f"{values.flow}.{key}", problem)
    flows = (FlowValues(values.scopes, pair) for pair in values.scopes.pairs)
    listed = {name for flow in flows for name in flow.items(TRANSFORMS)}
    for key in values.scopes.top:
        if key.startswith(PREFIX) and end_of(key)[0] not in listed:
            diagnostics.problem(key, f"has no effect: {TRANSFORMS} of no flow lists it")


def _check_schemas(diagnostics: Diagnostics, values: FlowValues) -> None:
    """Checks that schema ids are changed where somebody knows them, and in named topics."""
    clusters, mode = values.scopes.by_cluster, values.given(MODE)
    if mode is not None and text(mode).strip() not in KEYS[MODE].choices:
        return  # reported when the settings were sorted into scopes
    schemas = SchemasConfig(
        mode=cast("SchemasMode", values.text(MODE)),
        topics=values.items(TOPICS),
        unframed=cast("Unframed", values.text(UNFRAMED)),
        source_registry=registry_of(clusters[values.flow.source]),
        target_registry=registry_of(clusters[values.flow.target]),
    )
    for name, problem in schema_problems(values.flow, schemas, values.own):
        key = values.key(name) if name in KEYS else name
        diagnostics.problem(key, problem)


def _check_deletions(diagnostics: Diagnostics, values: FlowValues) -> None:
    """Checks that deletions are safe: under identity naming a remote topic may be the original.

    It may have become that by a migration.
    """
    name = "replication.deletions.enabled"
    if values.flag(name) and values.is_identity:
        diagnostics.problem(
            values.key(name),
            "is not possible under IdentityReplicationPolicy, where a remote topic cannot be told "
            "from the target's own topics; write false",
        )
    elif values.flag(name) and values.has_own_policy:
        diagnostics.problem(
            values.key(name),
            f"is not possible with {values.text(POLICY)}, because nobody knows whether it tells a "
            "remote topic from the target's own topics; write false",
        )
    elif values.flag(name) and values.items("replication.aggregate.topics"):
        diagnostics.problem(
            values.key(name),
            "is not possible with replication.aggregate.topics, because a remote topic that is "
            "deleted takes the records of its other writers with it; write false",
        )


def _check_security(diagnostics: Diagnostics, values: FlowValues, location: Location) -> None:
    """Checks that SASL and TLS are not configured by halves: Kafka would connect without them."""
    alias, client = values.alias(location), values.client(location, "admin")
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    mechanism = client.get("sasl.mechanism", "GSSAPI")
    if protocol.startswith("SASL_"):
        if "sasl.jaas.config" in client:
            return
        if mechanism.upper() == "GSSAPI":  # Java may have been given a JAAS file
            diagnostics.warning(
                f"{alias}.sasl.jaas.config",
                "missing; write Krb5LoginModule, or give the driver and the executors "
                "-Djava.security.auth.login.config",
            )
        else:
            diagnostics.problem(
                f"{alias}.sasl.jaas.config",
                f"missing; {mechanism} needs a login module with the user's credentials",
            )
        return
    own = values.scopes.by_cluster[alias]
    unused = [key for key in own if key.startswith("sasl.")]
    unused += [key for key in own if key.startswith("ssl.") and protocol != "SSL"]
    for key in unused:
        if "security.protocol" in client or key.startswith("ssl."):
            reason = f"has no effect: {alias}.security.protocol is {protocol}"
            diagnostics.unused(f"{alias}.{key}", reason, warns=True)
        else:
            diagnostics.problem(
                f"{alias}.{key}",
                f"has no effect without {alias}.security.protocol; write SASL_SSL or "
                "SASL_PLAINTEXT there",
            )


def check_state_dir(diagnostics: Diagnostics, given: str) -> None:
    if not given.startswith("/") and not _URI.fullmatch(given):
        diagnostics.problem(
            "state.dir",
            f"{diagnostics.display('state.dir', given)} is relative; write an absolute path or a "
            "URI such as s3a://bucket/folder",
        )


def local_state_problem(state_dir: str, master: str) -> str | None:
    """Returns the problem of a local *state_dir* on a cluster whose driver has no fixed node."""
    if is_local_mode(master) or not state_dir.startswith("file:"):
        return None
    return (
        f"state.dir: {state_dir} is a local folder, but the Spark master is {master}; write a "
        "directory that every node reaches, such as hdfs:///replication"
    )


def idle_job_problem(config: MirrorConfig, job: Job) -> str | None:
    """Returns the problem of a *job* that would run nothing: without a flow only heartbeats run."""
    if config.flows or runs(job, "heartbeats"):
        return None
    return f"{config.names[0]}.enabled: no enabled flow runs here, so the job {job} has no work"


# Checks flows against each other, before any cluster is asked.
#
# Only what the lists say in writing is compared, names and equal regexes: which topics a regex
# matches is known at run time, and `replication.topics.topic_plan` checks it then.


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
    for path, copied in paths.items():
        closing = Flow(path[-2], path[-1])
        diagnostics.problem(
            f"{closing}.topics",
            f"replication loop: {' -> '.join(path)} would copy {', '.join(copied)} without end "
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
