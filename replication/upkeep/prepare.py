"""Prepares the target's topics: lists, selects, creates and grows; returns the plan."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from replication.config.client_keys import principal_of
from replication.config.tree import ClusterConfig, FlowConfig
from replication.errors import GuardError, ReplicationError
from replication.kafka.acls import TopicAcls
from replication.kafka.api import join_names
from replication.kafka.cluster import Cluster, Operation, Rejections, are_one, have_one_id
from replication.kafka.diagnosis import BAD_FACTOR
from replication.kafka.jvm import shared_jvm
from replication.log import Log
from replication.model import Flow, NewTopic, Topic, TopicAcl
from replication.topics.acls import Resource, describe_acls, named_topics, removal_line
from replication.topics.configs import (
    SettingTrials,
    alter_line,
    by_weight,
    describe_losses,
    settings_to_create,
    with_settings,
)
from replication.topics.selection import (
    aliased_topics,
    impossible_copies,
    names_settings,
    remote_topics,
    selects_nothing,
    setting_notes,
    topic_notes,
)
from replication.topics.topic_plan import TopicPlan, plan_topics, too_few_in_sync
from replication.upkeep.faults import REPLICATION_FACTOR, TopicCause, TopicFault, causes_of

log = Log(__name__)

# Creates remote topics with all settings of their source topics that the target takes.


class RemoteTopics:
    """The topics to create on one target; `create` may be called again with some of them.

    Attributes:
        made: Those that `create` has created, and no other process at the same moment.
    """

    def __init__(self, flow: Flow, target: Cluster, topics: Collection[NewTopic]) -> None:
        self.log = log.bind(flow)
        self._target = target
        self._topics = {topic.name: topic for topic in topics}
        self._trials: dict[str, SettingTrials] = {}
        self.made = set[str]()

    def create(self, names: Collection[str]) -> dict[str, Topic]:
        """Creates the topics of *names*, and logs the settings that they do not have."""
        wanted = [topic for name, topic in self._topics.items() if name in names]
        created = self._target.create_topics(wanted, self._simplify, self.made)
        for name in sorted(created.keys() & self._trials.keys()):
            reasons = self._trials.pop(name).rejected
            values = dict(self._topics[name].configs)
            for key, reason in reasons.items():
                self.log.warning(
                    "setting_rejected",
                    topic=name,
                    key=key,
                    value=values[key],
                    text=f"the topic was created without this setting: {reason}",
                )
        return created

    def _simplify(self, rejected: Mapping[str, str]) -> Iterator[NewTopic]:
        """Yields *rejected* topics with the largest sets of settings that the target takes."""
        for name, reason in rejected.items():
            trials = SettingTrials.of(by_weight(key for key, _ in self._topics[name].configs))
            if trials.waiting:
                trials.settle(reason)
                self._trials[name] = trials
        while open_trials := {
            name: tried
            for name in rejected
            if (tried := self._trials.get(name)) is not None and tried.waiting
        }:
            reasons = self._target.try_topics(
                with_settings(self._topics[name], {*trials.taken, *trials.waiting[0]})
                for name, trials in open_trials.items()
            )
            for name, trials in open_trials.items():
                trials.settle(reasons.get(name))
        for name in rejected:
            if name in self._trials:
                yield with_settings(self._topics[name], self._trials[name].taken)


# Finds topics of the source that are left out because their names begin with an alias.
#
# Such a name reads as a copy's. If it is one, nobody misses it; if not, its records are not
# copied, and an operator must know. MirrorMaker 2 copies topics that begin with the source's own
# alias up to 4.3, so what it has copied must not end without a decision.


@dataclass(frozen=True, slots=True)
class Aliased:
    """Why topics are left out, by name.

    Args:
        left_out: Those without a copy on the target.
        copied: Those that another replicator has copied.
    """

    left_out: Mapping[str, str] = field(default_factory=dict)
    copied: Mapping[str, str] = field(default_factory=dict)


def find_aliased(config: FlowConfig, target: Cluster, names: Collection[str]) -> Aliased:
    """Returns the topics among the source's *names* that are left out, and may be no copies."""
    found = aliased_topics(config, names)
    if not found:
        return Aliased()
    flow, policy = config.flow, config.policy
    remote = {name: policy.remote_topic(flow.source, name) for name in found}
    origin = {name: policy.upstream_topic(name) or "" for name in found}
    wanted = {*remote.values(), *origin.values()} - {""}
    existing = Rejections().call(target.describe, wanted)
    left_out, copied = {}, {}
    for name, alias in found.items():
        if alias == flow.source and remote[name] in existing:
            copied[name] = _reason(alias) + (
                f"; but {remote[name]} exists on {flow.target}, so another replicator has copied "
                "it, such as MirrorMaker 2 before 4.4, and its copy would end here"
            )
        elif alias == flow.source or origin[name] not in existing:
            left_out[name] = _reason(alias)
    return Aliased(left_out, copied)


def _reason(alias: str) -> str:
    return (
        f"the name begins with the alias {alias}, so the topic is taken for a copy and not copied "
        "again, as in MirrorMaker 2 since 4.4. To copy it, choose another alias, another "
        "replication.policy.separator or IdentityReplicationPolicy; else add it to topics.exclude"
    )


# What the mirror's user may not do with the topics of a flow. Changes nothing.


@dataclass(frozen=True, slots=True)
class MissingRight:
    """What is not allowed.

    Args:
        alias: The cluster.
        servers: Its ``bootstrap.servers``.
        operation: Kafka's name of what is not allowed.
        topic: With what.
        denied_by: ACLs that deny it, whatever others allow.
        is_allowed: Whether nothing but these keeps it from being allowed.
        doubt: Why it is not known whether an ACL denies it; "" if it is.
    """

    alias: str
    servers: str
    operation: Operation
    topic: str
    denied_by: tuple[TopicAcl, ...] = ()
    is_allowed: bool = False
    doubt: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on topic {self.topic} of {self.alias} is {self.verdict}"

    @property
    def verdict(self) -> str:
        """Why it is not allowed, in words."""
        return f"denied ({self.denied_by[0]})" if self.denied_by else "not allowed"

    def lines(self, principal: str) -> tuple[str, ...]:
        """Returns the lines of kafka-acls that let *principal* do it."""
        denied = tuple(removal_line(acl, self.servers) for acl in self.denied_by)
        if self.is_allowed:
            return denied
        grant = {Resource("topic", self.topic): (self.operation,)}
        return (*denied, *describe_acls(grant, principal, self.servers))


@dataclass(frozen=True, slots=True)
class MissingRights:
    """What is not allowed with several topics for one reason."""

    rights: tuple[MissingRight, ...]

    def __str__(self) -> str:
        if len(self.rights) == 1:
            return str(self.rights[0])
        first, names = self.rights[0], [right.topic for right in self.rights]
        topics = f"{len(names)} topics of {first.alias} ({join_names(names)})"
        return f"{first.operation} on {topics} is {first.verdict}"

    def lines(self, principal: str) -> tuple[str, ...]:
        """Returns the lines of kafka-acls that let *principal* do it, each once."""
        lines = (line for right in self.rights for line in right.lines(principal))
        return tuple(dict.fromkeys(lines))

    def step(self, principal: str) -> str:
        """Returns the first lines, and how to get the others."""
        first, rest = self.rights[0], len(self.lines(principal)) - MOST_LINES
        step = "; ".join(self.lines(principal)[:MOST_LINES])
        if rest > 0:
            step += f" (python -m replication doctor FILE --fix-commands prints {rest} lines more)"
        return f"{step} ({first.doubt})" if first.doubt else step


MOST_LINES: Final = 3


def together(rights: Iterable[MissingRight]) -> tuple[MissingRights, ...]:
    """Returns *rights* by what they have in common."""
    groups: dict[object, list[MissingRight]] = {}
    for right in rights:
        key = right.alias, right.operation, right.denied_by, right.doubt
        groups.setdefault(key, []).append(right)
    return tuple(MissingRights(tuple(some)) for some in groups.values())


def _with_all_denials(
    rights: Collection[MissingRight], cluster: ClusterConfig
) -> Iterator[MissingRight]:
    """Yields *rights* that are missing on *cluster*, with the ACLs that deny them."""
    if not rights:
        return
    try:
        with TopicAcls(shared_jvm(), cluster.alias, cluster.admin) as acls:
            found = acls.read()
    except ReplicationError:
        servers = cluster.admin["bootstrap.servers"]
        doubt = (
            "where an ACL denies it, remove that one instead: this user may not see them, but "
            f"kafka-acls --bootstrap-server {servers} --list shows them"
        )
        yield from (replace(right, doubt=doubt) for right in rights)
        return
    is_plain = cluster.admin.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    user = "User:ANONYMOUS" if is_plain else principal_of(cluster.admin)
    yield from (with_denials(right, found, user) for right in rights)


EVERYBODY: Final = "User:*"
GIVE_DESCRIBE: Final = ("READ", "WRITE", "DELETE", "ALTER")
"""Who may do one of these with a topic may describe it."""


def with_denials(right: MissingRight, acls: Iterable[TopicAcl], user: str) -> MissingRight:
    """Returns *right* with those of *acls* that deny it to *user*.

    Where the file does not tell who that is, only what is denied to everybody is certainly denied:
    another user's ACL must not be removed.
    """
    acls = tuple(acls)
    all_ = [acl for acl in acls if acl.concerns(right.topic, right.operation)]
    with_it = GIVE_DESCRIBE if right.operation == "DESCRIBE" else ()
    users = (user, EVERYBODY)
    denied = sorted(acl for acl in all_ if acl.permission == "DENY" and acl.principal in users)
    doubt, others = "", sorted(acl for acl in all_ if acl.permission == "DENY")
    if others and not denied and not user:
        names = join_names(list(map(str, others)))
        doubt = f"where one of these is about this user, remove that one instead: {names}"
    is_allowed = bool(denied) and any(
        acl.permission == "ALLOW"
        and acl.principal in users
        and any(acl.concerns(right.topic, one) for one in (right.operation, *with_it))
        for acl in acls
    )
    return replace(right, denied_by=tuple(denied), is_allowed=is_allowed, doubt=doubt)


def missing_rights(
    config: FlowConfig, plan: TopicPlan, source: Cluster, target: Cluster
) -> tuple[MissingRight, ...]:
    """Returns what a flow needs of topics that exist, and its user may not do.

    A topic is not listed if the user may do nothing with it, so those that the file names are
    asked for as well.

    Raises:
        ClusterError: A cluster does not answer.
    """
    hidden = remote_topics(config, plan.rejected)  # or rejected for another reason
    copies = [remote for remote in plan.topics.values() if remote in plan.remote_ids]
    letters = [config.letters.letters_topic] if config.letters.kind == "topic" else []
    asked: tuple[tuple[Cluster, Operation, frozenset[str]], ...] = (
        (source, "DESCRIBE", frozenset(hidden)),
        (target, "DESCRIBE", frozenset(hidden.values())),
        (source, "READ", frozenset(plan.topics) | named_topics(config)),
        (target, "WRITE", frozenset([*copies, *letters])),
        (target, "READ", frozenset([*copies, *letters])),
    )
    lacking = [
        MissingRight(cluster.alias, cluster.servers, operation, name)
        for cluster, operation, topics in asked
        for name in Rejections().call(partial(cluster.denied, operation), topics)
    ]
    return tuple(
        right
        for side in (config.source, config.target)
        for right in _with_all_denials([one for one in lacking if one.alias == side.alias], side)
    )


ELECTION_SECONDS = 3.0
"""How long partitions may be without a leader before they are left out: an election is short."""

POLL_SECONDS = 0.1

Reserve = Callable[[TopicPlan], Mapping[str, str]]
"""Why topics of a plan must not be replicated next to those of other flows, by upstream names."""


def reserve_all(_plan: TopicPlan) -> Mapping[str, str]:
    """Reserves all names, for a flow that runs alone."""
    return {}


def prepare_topics(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    without: Collection[str] = (),
    known: Collection[str] = (),
    reserve: Reserve = reserve_all,
) -> TopicPlan:
    """Creates and grows the remote topics that the flow needs, and returns what to replicate.

    Changes nothing if nothing is missing. A topic that was deleted on the source is left out of the
    plan, and so is one that a cluster rejects; nothing is ever deleted or shrunk on the target.

    Topics of *without* are left alone; *known* ones were replicated or tried before. *reserve*
    tells which topics are kept by other flows: they are neither created nor grown.
    """
    return carry_out(look(config, source, target, without, known), config, target, reserve)


def carry_out(
    plan: TopicPlan, config: FlowConfig, target: Cluster, reserve: Reserve = reserve_all
) -> TopicPlan:
    """Creates and grows what *plan*, which `look` has made, needs on the target.

    Raises:
        ClusterError: The target does not answer.
    """
    left = reserve(plan)
    plan = replace(plan.without(left), left_to_others=left)
    rejections = Rejections()
    missing = RemoteTopics(config.flow, target, plan.create)
    created = rejections.call(missing.create, [topic.name for topic in plan.create])
    smaller = {  # another process created it at the same moment
        topic.name: topic.partitions
        for topic in plan.create
        if topic.name in created and created[topic.name].partitions < topic.partitions
    }
    grow = {**plan.grow, **smaller}
    created |= rejections.call(
        lambda names: target.create_partitions({name: grow[name] for name in names}), grow
    )
    for topic in created.values():
        log.bind(config.flow).info("topic_prepared", topic=topic.name, partitions=topic.partitions)
    new_ids = {name: topic.topic_id for name, topic in created.items()}
    remote_ids = {**plan.remote_ids, **new_ids}
    plan = replace(plan, remote_ids=remote_ids, made=frozenset(missing.made))
    return _without_rejected(plan, {}, rejections.texts)


def look(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    without: Collection[str] = (),
    known: Collection[str] = (),
) -> TopicPlan:
    """Returns the plan that `prepare_topics` would carry out; changes nothing.

    A cluster lists only what its user may see, so a topic whose ACL is lost looks deleted. Asked
    for by name, such a topic is rejected: that is what *known* is for.

    Raises:
        GuardError: Source and target are one cluster.
        ClusterError: A cluster does not answer.
    """
    names = source.topic_names()
    shared_id = _check_clusters(config, source, target)
    hidden = remote_topics(config, set(known) - names).keys()
    denied = source.denied("READ", hidden)
    if hidden - denied.keys():  # deleted, or granted since the list was made
        names = source.topic_names()
    selected = remote_topics(config, names)
    of_source, of_target = Rejections(), Rejections()
    of_source.texts.update(impossible_copies(config, selected))
    upstream = _describe(source, of_source, selected.keys() - set(without), listed=True)
    of_source.texts.update({name: denied[name] for name in denied.keys() - set(without)})
    aliased = find_aliased(config, target, names - set(without))
    of_source.texts.update(aliased.copied)
    downstream = _describe(target, of_target, [selected[name] for name in upstream])
    missing = [name for name in upstream if selected[name] not in downstream]
    settings = of_source.call(source.topic_config, missing)
    plan = plan_topics(
        config,
        upstream,
        downstream,
        {name: settings_to_create(own, config.topic_configs) for name, own in settings.items()},
    )
    plan = replace(
        plan,
        warnings=(*topic_notes(config, names, selected), *_setting_notes(config, source, upstream)),
        shared_id=shared_id,
        left_out=aliased.left_out,
        is_empty=selects_nothing(config, selected),
        gone=frozenset(hidden - denied.keys() - names),
    )
    return _without_rejected(plan, of_source.texts, of_target.texts)


def _setting_notes(config: FlowConfig, source: Cluster, topics: Collection[str]) -> tuple[str, ...]:
    some = sorted(topics)[:1] if names_settings(config) else []
    for settings in Rejections().call(source.topic_config, some).values():
        return tuple(setting_notes(config, settings))
    return ()


def _describe(
    cluster: Cluster, rejections: Rejections, names: Collection[str], *, listed: bool = False
) -> dict[str, Topic]:
    """Describes the topics of *names*; waits a moment for the leaders of their partitions."""
    topics = rejections.call(partial(cluster.describe, listed=listed), names)
    deadline = time.monotonic() + ELECTION_SECONDS
    while leaderless := [name for name, topic in topics.items() if topic.leaderless]:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
        topics |= rejections.call(cluster.describe, leaderless)
    return topics


def _without_rejected(
    plan: TopicPlan, upstream: Mapping[str, str], remote: Mapping[str, str]
) -> TopicPlan:
    """Leaves the topics out of *plan* that a cluster rejects, by their upstream or remote names."""
    of_target = {name: remote[copy] for name, copy in plan.topics.items() if copy in remote}
    rejected = {**upstream, **of_target}
    left = plan.without(rejected.keys())
    return replace(left, rejected={**plan.rejected, **rejected})


def without_refused(plan: TopicPlan, target: Cluster) -> TopicPlan:
    """Returns *plan* without the topics that *target* would not create, and why; creates none.

    Raises:
        ClusterError: The target does not answer.
    """
    refused = target.refusals(plan.create)
    short = {name for name, error in refused.items() if error.code == BAD_FACTOR}
    left = _without_rejected(plan, {}, {name: str(error) for name, error in refused.items()})
    names = (name for name, copy in plan.topics.items() if copy in short)
    return replace(left, short_of_brokers=frozenset(names))


def topic_faults(
    config: FlowConfig, plan: TopicPlan, lacking: Collection[MissingRight]
) -> Iterator[TopicFault]:
    """Yields why topics of *plan* are rejected, but for those that the user may not describe.

    These are among the rights that are *lacking*, which know an ACL that denies it: the text of a
    rejection would allow what stays denied.
    """
    copies, target = remote_topics(config, plan.rejected), config.target.alias
    hidden = {right.topic for right in lacking if right.operation == "DESCRIBE"}
    for topic, text in plan.rejected.items():
        if topic in hidden or copies.get(topic) in hidden:
            continue
        short = (target, REPLICATION_FACTOR) if topic in plan.short_of_brokers else ("", "")
        yield TopicFault(topic, text, *short, copy=copies.get(topic, ""))


def topic_warnings(plan: TopicPlan, source: Cluster, target: Cluster) -> tuple[TopicCause, ...]:
    """Returns the `topic_losses` of *plan*; of many topics for one cause, one."""
    faults = (
        TopicFault(topic, f"{text}; {line} (or accept the loss)", copy=plan.topics[topic])
        for topic, (text, line) in topic_losses(plan.topics, source, target).items()
    )
    return tuple(causes_of(faults, {}))


def topic_losses(
    topics: Mapping[str, str], source: Cluster, target: Cluster
) -> dict[str, tuple[str, str]]:
    """Returns what the copy of an upstream topic would not keep, and the line that mends it.

    Copied records have the source's timestamps: a shorter retention on the target deletes them at
    once. Of *topics*, by their upstream names, those that do not exist on the target yet, or whose
    settings a cluster does not show, are not judged.
    """
    upstream = Rejections().call(source.topic_config, topics)
    downstream = Rejections().call(target.topic_config, topics.values())
    found: dict[str, tuple[str, str]] = {}
    for topic, remote in topics.items():
        if topic not in upstream or remote not in downstream:
            continue
        if losses := describe_losses(upstream[topic], downstream[remote]):
            text = (
                f"topic {remote} on {target.alias} rejects or deletes records that {topic} on "
                f"{source.alias} keeps: {', '.join(losses.values())}"
            )
            kept = {key: upstream[topic][key].value for key in losses}
            found[topic] = text, alter_line(target.servers, remote, kept)
    return found


def unwritable_topics(plan: TopicPlan, target: Cluster) -> dict[str, str]:
    """Returns why *target* takes no records for remote topics of *plan* now, by upstream names.

    Topics that do not exist yet, or whose settings the cluster does not show, are not judged.

    Raises:
        ClusterError: The target does not answer.
    """
    rejections = Rejections()
    topics = rejections.call(target.describe, plan.remote_ids)
    settings = rejections.call(target.topic_config, topics)
    found = {
        name: too_few_in_sync(topics[remote], settings[remote], target.alias, target.servers)
        for name, remote in plan.topics.items()
        if remote in topics and remote in settings
    }
    return {name: text for name, text in found.items() if text}


def _check_clusters(config: FlowConfig, source: Cluster, target: Cluster) -> str:
    """Returns a warning if both clusters have one id, although they differ; "" if not.

    Topics copied within a cluster match the flow's own filter and grow forever (KAFKA-9914).
    """
    if not have_one_id(source, target):
        return ""
    both = (
        f"{source.alias} (bootstrap.servers={source.servers}) and {target.alias} "
        f"(bootstrap.servers={target.servers})"
    )
    if are_one(source, target):
        raise GuardError(
            f"flow {config.flow}: {both} are the same Kafka cluster (id {source.cluster_id()}); "
            "replicating it to itself would loop forever. Correct one bootstrap.servers, or "
            "disable the flow"
        )
    return (
        f"{both} were formatted with the same cluster id {source.cluster_id()}, but have neither "
        "a broker nor a topic in common, so they are taken for two clusters: give each an id of "
        "its own when it is built anew (kafka-storage random-uuid)"
    )
