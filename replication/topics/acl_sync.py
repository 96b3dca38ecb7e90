"""Which topic ACLs the target gets, by MirrorMaker 2's rules. Pure.

Nobody but the mirror may write to a remote topic, so the permission to write is never copied.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from replication.config.tree import FlowConfig
from replication.model import TopicAcl
from replication.topics.selection import remote_topics

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
    asked = wanted | _copies_of_all(config, source)
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


def _copies_of_all(config: FlowConfig, source: Iterable[TopicAcl]) -> set[TopicAcl]:
    """Returns the copies of all the source's ACLs, even of topics and prefixes not copied."""
    alias = config.flow.source
    return {
        copy
        for acl in source
        for prefixed in (False, True)
        for copy in _copies(acl, config.policy.remote_topic(alias, acl.topic), prefixed=prefixed)
    }


def _copies(acl: TopicAcl, remote: str, *, prefixed: bool) -> Iterator[TopicAcl]:
    """Yields the ACL under its *remote* name; nothing if it grants nothing but writing."""
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
