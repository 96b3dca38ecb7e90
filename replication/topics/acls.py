"""The ACLs that remote topics get, and those that the mirror's own user needs. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from replication.config.tree import FlowConfig, MirrorConfig
from replication.mm2.policy import CustomPolicy
from replication.model import LEASE_GROUP_PREFIX, AclPattern, Location, TopicAcl
from replication.topics.selection import remote_topics

# Which topic ACLs the target gets, by MirrorMaker 2's rules.
#
# Nobody but the mirror may write to a remote topic, so the permission to write is never copied.

ANY_TOPIC = "*"


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What a round of the ACL sync does on the target, in this order.

    Args:
        create: ACLs that the target lacks; prohibitions come first.
        remove: ACLs that the flow created and that are gone on the source.
        keep: The same, where the flow does not remove any.
        forget: ACLs that the flow created and that are gone on both sides.
    """

    create: tuple[TopicAcl, ...] = ()
    remove: tuple[TopicAcl, ...] = ()
    keep: tuple[TopicAcl, ...] = ()
    forget: tuple[TopicAcl, ...] = ()


@dataclass(frozen=True, slots=True)
class AclHistory:
    """What a flow did to the target's ACLs.

    Args:
        created: What it created and has not removed.
        rejected: What the target rejected last: action and ACL.
    """

    created: set[TopicAcl] = field(default_factory=set)
    rejected: set[tuple[str, TopicAcl]] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "AclHistory":
        """Returns the history in the rows of the table ``topic_acls``, in any order."""
        history = cls()
        for row in sorted(rows, key=lambda row: row["at"]):
            acl = TopicAcl(
                row["remote_topic"], row["pattern"], row["principal"], row["host"],
                row["operation"], row["permission"],
            )  # fmt: skip
            history.add(row["action"], acl, row["rejection"])
        return history

    def add(self, action: str, acl: TopicAcl, rejection: str | None) -> None:
        """Adds the outcome of one action: ``create``, ``remove`` or ``forget``."""
        if rejection is not None:
            self.rejected.add((action, acl))
            return
        self.rejected.discard((action, acl))
        if action == "create":
            self.created.add(acl)
        else:
            self.created.discard(acl)


def plan_acls(
    config: FlowConfig,
    source: Collection[TopicAcl],
    target: Collection[TopicAcl],
    created: Collection[TopicAcl],
) -> AclPlan:
    """Returns what to create and to remove on the target.

    An ACL that somebody else created on the target is never removed. What the flow created stays
    while any ACL of the source asks for it, even if its topic is not replicated any more.

    Args:
        config: The flow.
        source: All topic ACLs of the source.
        target: All topic ACLs of the target.
        created: Those on the target that the flow created.
    """
    wanted = remote_acls(config, source)
    existing = set(target)
    mine = set(created)
    asked = wanted | {  # also for topics and prefixes that are not copied
        copy
        for acl in source
        for prefixed in (False, True)
        for copy in _copies(
            acl, config.policy.remote_topic(config.flow.source, acl.topic), prefixed=prefixed
        )
    }
    gone = tuple(sorted((mine & existing) - asked, key=lambda acl: (acl.permission, acl)))
    return AclPlan(
        create=tuple(sorted(wanted - existing, key=lambda acl: (acl.permission != "DENY", acl))),
        remove=gone if config.acls.removal else (),
        keep=() if config.acls.removal else gone,
        forget=tuple(sorted(mine - existing - wanted)),
    )


def remote_acls(config: FlowConfig, source: Iterable[TopicAcl]) -> set[TopicAcl]:
    """Returns the ACLs that the target should have: those of replicated topics, with remote names.

    As in MirrorMaker 2, ALLOW WRITE is left out, ALLOW ALL becomes ALLOW READ, and everything else
    is copied as it is. A prefix is treated like the name of a topic: it must pass the flow's lists,
    and gets the remote name.
    """
    passing = [acl for acl in source if acl.pattern == "LITERAL" or config.acls.prefixed]
    remote = remote_topics(config, {acl.topic for acl in passing})
    return {
        copy
        for acl in passing
        if acl.topic in remote
        for copy in _copies(acl, remote[acl.topic], prefixed=config.acls.prefixed)
    }


def _copies(acl: TopicAcl, remote: str, *, prefixed: bool) -> Iterator[TopicAcl]:
    if acl.permission == "ALLOW":
        if acl.operation == "WRITE":
            return
        if acl.operation == "ALL":
            acl = replace(acl, operation="READ")
    if prefixed and acl.topic == ANY_TOPIC and acl.pattern == "LITERAL" and remote != ANY_TOPIC:
        # "A.*" would be one topic of that name: all remote topics are those with the prefix "A."
        yield replace(acl, topic=remote.removesuffix(ANY_TOPIC), pattern="PREFIXED")
    else:
        yield replace(acl, topic=remote)


# The access that the mirror's user needs on each cluster, from the configuration alone.
#
# Kafka's ACLs know names and prefixes, the lists of a flow know regular expressions: of an
# expression the prefix that it begins with counts, which may be every name.

ResourceKind = Literal["topic", "group", "cluster"]

READ_SOURCE: Final = ("READ", "DESCRIBE_CONFIGS")
INTERNAL: Final = ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")
CLUSTER: Final = "kafka-cluster"
YOURS: Final = "User:YOURS"
"""In the place of a user whose name is not known, as in the texts of calls."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
_BEGINNING: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\\.|\.(?![*+?{]))*")


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """What an ACL is for; ``*`` with the pattern LITERAL is every topic or group."""

    kind: ResourceKind
    name: str
    pattern: AclPattern = "LITERAL"


Grants = dict[Resource, tuple[str, ...]]
"""Kafka's names of the operations that are allowed, by resource. READ and the like include
DESCRIBE, ALTER_CONFIGS includes DESCRIBE_CONFIGS."""


def needed_acls(config: MirrorConfig, *, failover: bool = False) -> dict[str, Grants]:
    """Returns what the mirror's user of each cluster needs, by alias.

    With *failover* also what it needs to commit the offsets of groups on both clusters by command.
    """
    needed: defaultdict[str, defaultdict[Resource, set[str]]]
    needed = defaultdict(lambda: defaultdict(set))
    for flow in config.flows:
        for resource, operations in _on_source(flow):
            needed[flow.flow.source][resource].update(operations)
        for resource, operations in _on_target(flow):
            needed[flow.flow.target][resource].update(operations)
        for resource in _resources("group", flow.groups.groups) if failover else ():
            for alias in (flow.flow.source, flow.flow.target):
                needed[alias][resource].add("READ")
    for pair in config.heartbeats:
        needed[pair.alias][Resource("topic", pair.topic)].update(
            ("CREATE", "WRITE", "DESCRIBE_CONFIGS")
        )
    return {
        alias: {resource: tuple(sorted(grants[resource])) for resource in sorted(grants)}
        for alias, grants in needed.items()
    }


def named_topics(config: FlowConfig) -> frozenset[str]:
    """Returns the topics that *config* names in full: a cluster hides what its user may not see."""
    found = _resources("topic", config.topics)
    return frozenset(one.name for one in found if one.pattern == "LITERAL" and one.name != "*")


Need = tuple[Resource, Iterable[str]]


def _on_source(config: FlowConfig) -> Iterator[Need]:
    for resource in _resources("topic", config.topics):
        yield resource, READ_SOURCE
    if config.heartbeats_replication_enabled:
        yield Resource("topic", config.policy.heartbeats_topic()), READ_SOURCE
    if config.acls.sync_enabled:
        yield Resource("cluster", CLUSTER), ["DESCRIBE"]
    if config.groups.checkpoints_enabled:
        for resource in _resources("group", config.groups.groups):
            yield resource, ["DESCRIBE"]
    yield from _offset_syncs(config, "source")


def _on_target(config: FlowConfig) -> Iterator[Need]:
    operations = ["CREATE", "WRITE", "READ", "ALTER", "DESCRIBE_CONFIGS"]
    operations += ["ALTER_CONFIGS"] if config.topic_configs.sync_enabled else []
    operations += ["DELETE"] if config.deletions.enabled else []
    policy, source = config.policy, config.flow.source
    for resource in _resources("topic", config.topics):
        yield _remote(config, resource), operations
    if config.heartbeats_replication_enabled:
        yield Resource("topic", policy.remote_topic(source, policy.heartbeats_topic())), operations
    if config.acls.sync_enabled:
        yield Resource("cluster", CLUSTER), ["ALTER", "DESCRIBE"]
    yield Resource("group", LEASE_GROUP_PREFIX, "PREFIXED"), ["READ"]
    if config.status.storage_topic:  # written by the flow, read by commands
        yield Resource("topic", config.status.storage_topic), INTERNAL
    if config.letters.kind == "topic":
        yield Resource("topic", config.letters.letters_topic), ("CREATE", "READ", "WRITE")
    if config.takeover_topic:
        yield Resource("topic", config.takeover_topic), ["READ"]
    if config.groups.checkpoints_enabled:
        yield Resource("topic", policy.checkpoints_topic(source)), INTERNAL
    if config.groups.checkpoints_enabled and config.groups.sync_enabled:
        for resource in _resources("group", config.groups.groups):
            yield resource, ["READ"]
    yield from _offset_syncs(config, "target")


def _offset_syncs(config: FlowConfig, location: Location) -> Iterator[Need]:
    syncs = config.offset_syncs
    if syncs.enabled and syncs.location == location:
        other = config.flow.target if location == "source" else config.flow.source
        yield Resource("topic", config.policy.offset_syncs_topic(other)), INTERNAL


def _remote(config: FlowConfig, resource: Resource) -> Resource:
    """Returns the same on the target; of every topic, every topic with the policy's prefix."""
    if isinstance(config.policy, CustomPolicy):  # what it makes of a prefix, nobody knows
        is_name = resource.pattern == "LITERAL" and resource.name != "*"
        name = config.policy.remote_topic(config.flow.source, resource.name) if is_name else "*"
        return Resource("topic", name)
    remote = config.policy.remote_topic(config.flow.source, "x").removesuffix("x")
    if resource.name == "*" and resource.pattern == "LITERAL":
        return Resource("topic", remote, "PREFIXED") if remote else resource
    return Resource("topic", f"{remote}{resource.name}", resource.pattern)


def _resources(kind: ResourceKind, items: Iterable[str]) -> set[Resource]:
    found = set[Resource]()
    for item in items:  # of a choice at the top, a|b.*, each part by itself
        parts = [item] if set(item) & set("([") else re.split(r"(?<!\\)\|", item)
        found.update(_resource(kind, part) for part in parts)
    everything = Resource(kind, "*")
    return {everything} if everything in found else found


def _resource(kind: ResourceKind, item: str) -> Resource:
    if _PLAIN.fullmatch(item):
        return Resource(kind, item)
    if set(item) & set("|("):  # an alternative may begin otherwise
        return Resource(kind, "*")
    match = _BEGINNING.match(item)
    beginning = match[0] if match else ""
    if item[len(beginning) : len(beginning) + 1] in set("*?{"):  # the last character may be absent
        beginning = beginning[:-1]
    beginning = beginning.replace("\\", "")
    return Resource(kind, beginning, "PREFIXED") if beginning else Resource(kind, "*")


def describe_acls(
    grants: Mapping[Resource, tuple[str, ...]], principal: str, servers: str
) -> Iterator[str]:
    """Yields a line of ``kafka-acls`` for each resource."""
    for resource, operations in grants.items():
        names = " ".join(f"--operation {camel(operation)}" for operation in operations)
        name = "" if resource.kind == "cluster" else f" '{resource.name}'"
        prefixed = " --resource-pattern-type prefixed" if resource.pattern == "PREFIXED" else ""
        yield (
            f"kafka-acls --bootstrap-server {servers} --add --allow-principal '{principal}' "
            f"{names} --{resource.kind}{name}{prefixed}"
        )


def removal_line(acl: TopicAcl, servers: str) -> str:
    """Returns the line of ``kafka-acls`` that removes *acl*, and nothing else."""
    who = "deny" if acl.permission == "DENY" else "allow"
    return (
        f"kafka-acls --bootstrap-server {servers} --remove --force --{who}-principal "
        f"'{acl.principal}' --{who}-host '{acl.host}' --operation {camel(acl.operation)} "
        f"--topic '{acl.topic}' --resource-pattern-type {acl.pattern.lower()}"
    )


def camel(operation: str) -> str:
    """Returns Kafka's name of an operation as its tools write it: ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in operation.split("_"))
