"""Plans the ACLs of remote topics between two clusters, and applies them. Needs a JVM, no Spark."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from replication.config.tree import FlowConfig
from replication.kafka.acls import TopicAcls
from replication.model import TopicAcl
from replication.topics.acl_sync import AclPlan, plan_acls
from replication.upkeep.settings import Act, always

Action = Literal["create", "remove", "forget"]


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """What became of one ACL; ``rejection`` is the target's reason, None if it accepted."""

    action: Action
    acl: TopicAcl
    rejection: str | None = None


def plan_acl_sync(
    config: FlowConfig, source: TopicAcls, target: TopicAcls, created: Collection[TopicAcl]
) -> AclPlan:
    """Returns what a round would change.

    Args:
        config: The flow.
        source: The ACLs of its source cluster.
        target: Those of its target cluster.
        created: What earlier rounds created on the target.

    Raises:
        NoAclsError: A cluster has no authorizer, or the user lacks a permission.
        ClusterError: A cluster does not answer.
    """
    return plan_acls(config, source.read(), target.read(), created)


def apply_acls(target: TopicAcls, plan: AclPlan, act: Act = always) -> Iterator[AclOutcome]:
    """Carries *plan* out, as far as *act* allows it, and yields what became of each ACL.

    Raises:
        NoAclsError: The user may not change ACLs; nothing was changed.
        ClusterError: The cluster does not answer.
    """
    with act() as may:
        if not may:
            return
        rejections = target.create(plan.create)
    yield from (AclOutcome("create", acl, rejections.get(acl)) for acl in plan.create)
    with act() as may:
        if not may:
            return
        rejections = target.remove(plan.remove)
    yield from (AclOutcome("remove", acl, rejections.get(acl)) for acl in plan.remove)
    yield from (AclOutcome("forget", acl) for acl in plan.forget)
