"""Plans and applies the settings of remote topics between two clusters. Needs no Spark."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from replication.config.tree import FlowConfig
from replication.kafka.acls import TopicAcls
from replication.kafka.cluster import Cluster, Rejections
from replication.log import Log
from replication.model import Topic, TopicAcl
from replication.topics.acls import AclPlan, plan_acls
from replication.topics.configs import (
    Applied,
    SettingChange,
    SettingTrials,
    TopicKey,
    by_weight,
    plan_changes,
)
from replication.topics.selection import impossible_copies, remote_topics

log = Log(__name__)

Act = Callable[[], AbstractContextManager[bool]]
"""The block of one change of the target; yields whether it may be made."""


def always() -> AbstractContextManager[bool]:
    """Allows every change."""
    return nullcontext(enter_result=True)


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The changes of one remote topic."""

    topic: str
    remote: Topic
    changes: tuple[SettingChange, ...]

    @property
    def key(self) -> TopicKey:
        """What the history of the remote topic is filed under."""
        return self.remote.name, self.remote.topic_id


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """What became of one change; ``rejection`` is the target's reason, None if it accepted."""

    topic: TopicChanges
    change: SettingChange
    rejection: str | None = None


def plan_config_sync(
    config: FlowConfig, source: Cluster, target: Cluster, applied: Mapping[TopicKey, Applied]
) -> tuple[TopicChanges, ...]:
    """Returns what a round would change or record; topics in step are absent.

    Args:
        config: The flow.
        source: Its source cluster.
        target: Its target cluster.
        applied: What earlier rounds applied to each remote topic.

    Raises:
        ClusterError: A cluster does not answer.
    """
    selected = {
        name: remote
        for name, remote in remote_topics(config, source.topic_names()).items()
        if not config.shares(remote)  # its flows would undo each other's changes forever
    }
    of_source, of_target = Rejections(), Rejections()
    impossible = impossible_copies(config, selected)
    of_target.texts.update({selected[name]: text for name, text in impossible.items()})
    remotes = of_target.call(target.describe, selected.values())
    upstream = of_source.call(
        source.topic_config, [name for name, remote in selected.items() if remote in remotes]
    )
    downstream = of_target.call(target.topic_config, remotes)
    for topic, text in {**of_source.texts, **of_target.texts}.items():
        log.bind(config.flow).warning("settings_not_compared", topic=topic, text=text)
    planned = (
        TopicChanges(
            topic,
            remotes[remote],
            plan_changes(
                upstream[topic],
                downstream[remote],
                applied.get((remote, remotes[remote].topic_id), {}),
                config.topic_configs,
            ),
        )
        for topic, remote in selected.items()
        if topic in upstream and remote in downstream
    )
    return tuple(topic for topic in planned if topic.changes)


def apply_changes(
    target: Cluster, planned: Iterable[TopicChanges], act: Act = always
) -> Iterator[SettingOutcome]:
    """Sends the changes and yields what became of each; a rejected one holds up no other.

    Of one that *act* does not allow, nothing is said.

    Raises:
        ClusterError: The cluster does not answer.
    """
    topics = {topic.remote.name: topic for topic in planned}
    due: dict[str, dict[str, SettingChange]] = {}
    for name, topic in topics.items():
        due[name] = {change.key: change for change in topic.changes if change.is_due}
        yield from (SettingOutcome(topic, change) for change in topic.changes if not change.is_due)
    trials = {name: SettingTrials.of(by_weight(changes)) for name, changes in due.items()}
    while sent := {name: tried.waiting[0] for name, tried in trials.items() if tried.waiting}:
        with act() as may:
            if not may:
                break
            rejections = target.alter_topic_config(
                {name: {key: due[name][key].value for key in keys} for name, keys in sent.items()}
            )
        for name in sent:
            rejection = rejections.get(name)
            if rejection is not None and not rejection.is_for_a_setting:
                trials[name].reject_all(rejection.text)
            else:
                trials[name].settle(rejection.text if rejection else None)
    for name, tried in trials.items():
        for key, change in due[name].items() if not tried.waiting else ():
            yield SettingOutcome(topics[name], change, tried.rejected.get(key))


# Plans the ACLs of remote topics between two clusters, and applies them. Needs a JVM, no Spark.

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
