"""Each consumer group's committed offsets on both clusters of a flow."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from replication.config.tree import ClusterConfig, FlowConfig, MirrorConfig
from replication.control.written import open_written
from replication.errors import ClusterError, StateError
from replication.foreign_json import to_json
from replication.groups.positions import (
    KEYS,
    GroupPosition,
    Rejected,
    SyncAnswer,
    SyncRules,
    sync_answer,
)
from replication.kafka.cluster import Cluster, Rejections, open_clusters
from replication.kafka.consumer_groups import Groups
from replication.kafka.jvm import shared_jvm
from replication.mm2.filters import NameFilter
from replication.model import Committed, TopicPartition
from replication.offsets.map import fields
from replication.state.cluster_ids import check_ids, check_topics, stored_ids, stored_topics
from replication.state.table_reader import OffsetReader
from replication.topics.selection import uncopied_reads
from replication.upkeep.groups import checkpoints_topic, read_checkpoints, translate_groups

# What a command reads of one flow: its clusters, their groups, and its offset map.


@dataclass(frozen=True, slots=True)
class FlowView:
    """Read access to one flow.

    Args:
        open_groups: Connects to the consumer groups of one of the two clusters.
        events: Returns the newest event for each value of some columns.
        doubts: Why the offset maps may be older than those of a running job; empty if they are not.
    """

    config: FlowConfig
    source: Cluster
    target: Cluster
    offsets: OffsetReader
    open_groups: Callable[[ClusterConfig], Groups]
    events: Callable[[Sequence[str]], list[dict[str, Any]]]
    doubts: tuple[str, ...] = ()


@contextmanager
def open_view(mirror: MirrorConfig, config: FlowConfig) -> Iterator[FlowView]:
    """Opens the clusters of *config*'s flow and the state directory of *mirror* for the block.

    A process that runs the flow is asked to write its offset map first.

    Raises:
        IdentityError: The state is of other clusters, as far as these answer.
        StateError: The tables cannot be read.
    """
    with (
        open_written(mirror, config) as (state, doubts),
        open_clusters(config) as (source, target),
    ):
        found = {}
        for cluster in (source, target):
            with suppress(ClusterError):  # a failover may have lost it
                found[cluster.alias] = cluster.cluster_id()
        stored = stored_ids(state, config)
        new = check_ids(config, mirror.state_dir, stored, found)
        if unnamed := {alias: new[alias] for alias in new if alias not in stored}:
            topics = stored_topics(state, config)
            with suppress(ClusterError):
                check_topics(config, mirror.state_dir, unnamed, topics, (source, target))
        yield FlowView(
            config,
            source,
            target,
            state.offsets(config.flow),
            lambda cluster: Groups(shared_jvm(), cluster.alias, cluster.admin),
            lambda keys: state.newest("events", config.flow, keys, ["at"]),
            doubts,
        )


GROUPS_TOPIC: Final = "__consumer_offsets"
"""Where brokers keep groups; the leader of a group's partition is its coordinator."""

IsWanted = Callable[[str], bool]
"""Whether a group is one of those the operator asked for."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group in one partition, on both clusters.

    Args:
        position: Its committed offset on the source, and that offset's translation.
        lag: Source offsets that the group may still read: from its position, or from the start of
            the log if that is later, to the end as the flow's isolation level has it.
        state: The group's state on the target; "" for a group that does not exist there.
        on_target: Its committed offset on the target, None if there is none.
        sync: Why the target has that one.
    """

    position: GroupPosition
    lag: int
    state: str
    on_target: int | None
    sync: SyncAnswer

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        position = self.position
        return {
            "group": position.group,
            "topic": position.upstream.topic,
            "remote_topic": position.remote.topic,
            "partition": position.upstream.partition,
            "source": {"committed": position.committed.offset, "lag": self.lag},
            "translated": fields(position.answer),
            "target": {"committed": self.on_target, "state": self.state or None},
            "sync": to_json(self.sync),
        }


def wanted_groups(config: FlowConfig, names: Sequence[str]) -> IsWanted:
    """Accepts the groups that the operator *names*, or those that the configuration selects."""
    return NameFilter(tuple(names)).accepts if names else config.groups.accepts


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The status of groups, and one line for each that cannot be shown."""

    statuses: tuple[GroupStatus, ...]
    problems: tuple[str, ...]


def group_status(view: FlowView, is_wanted: IsWanted) -> GroupTable:
    """Returns the status of the source's groups that *is_wanted* accepts, by group and partition.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    rejected, unread = Rejected(), list[str]()
    try:
        rejected = Rejected.of(view.events(KEYS))
    except StateError as error:  # positions are known without it
        unread = [f"whether the target rejects a group is not known: {error}"]
    with view.open_groups(view.config.target) as target:
        states = target.states()
        positions, problems = source_positions(view, is_wanted, states)
        committed, failures = target.readable({position.group for position in positions})
    unread += [f"group {name}: {error}" for name, error in failures.items()]
    target_alias = view.config.flow.target
    partitions = {position.upstream for position in positions}
    ends = view.source.log_ends(partitions, view.config.isolation)
    starts = view.source.earliest(partitions)
    statuses = []
    for position in positions:
        tp, offset = position.upstream, position.reads_from
        on_target = committed.get(position.group, {}).get(position.remote)
        there = on_target.offset if on_target else None
        state = states.get(position.group, "")
        denied = failures.get(position.group)
        is_denied = denied is not None and not denied.is_temporary
        refusal = str(denied) if is_denied else rejected.get(position.group, target_alias)
        rules = replace(sync_rules(view.config, position), refusal=refusal)
        statuses.append(
            GroupStatus(
                position,
                lag=max(0, ends.get(tp, offset) - max(offset, starts.get(tp, 0))),
                state=state,
                on_target=there,
                sync=sync_answer(position, there, state, rules),
            )
        )
    return GroupTable(tuple(statuses), (*problems, *unread))


def sync_rules(config: FlowConfig, position: GroupPosition) -> SyncRules:
    """Returns what the flow says of the group of *position*."""
    return SyncRules(
        config.groups.sync_enabled,
        config.groups.accepts(position.group),
        config.shares(position.remote.topic),
    )


def source_positions(
    view: FlowView, is_wanted: IsWanted, known: Collection[str] = ()
) -> tuple[list[GroupPosition], tuple[str, ...]]:
    """Returns the translated positions of the source's groups that *is_wanted* accepts.

    Also returns one line for each of them whose positions are not known. *known* are groups that
    the target has.
    """
    with suppress(ClusterError):  # the target is not what is asked
        checkpoints = read_checkpoints(checkpoints_topic(view.target, view.config))
        known = {*known, *(group for group, _ in checkpoints)}
    with view.open_groups(view.config.source) as source:
        found = read_groups(view.source, source, is_wanted, known)
    uncopied = uncopied_reads(view.config, found.committed)
    translated = translate_groups(
        view.config, view.source, view.target, found.committed, view.offsets.maps
    )
    positions = (*translated.positions, *translated.untranslated)
    in_order = sorted(positions, key=lambda position: (position.group, position.upstream))
    partly = _partly_committed(view.source, in_order)
    return in_order, (*view.doubts, *found.problems, *uncopied, *partly)


def _partly_committed(source: Cluster, positions: Iterable[GroupPosition]) -> list[str]:
    """Returns a line for each group and topic where it has committed in some partitions only.

    A partition without records is not named: nobody commits there.
    """
    committed = defaultdict[tuple[str, str], set[int]](set)
    for position in positions:
        committed[position.group, position.upstream.topic].add(position.upstream.partition)
    try:
        names = sorted({topic for _, topic in committed})
        topics = Rejections().call(source.describe, names)
        left = {
            (group, topic): [
                TopicPartition(topic, number)
                for number in range(topics[topic].partitions)
                if number not in own and number not in topics[topic].leaderless
            ]
            for (group, topic), own in committed.items()
            if topic in topics
        }
        asked = {tp for some in left.values() for tp in some}
        ends, starts = source.log_ends(asked), source.earliest(asked)
    except ClusterError as error:
        return [f"whether groups have committed in all partitions is not known: {error}"]
    filled = {tp for tp, end in ends.items() if end > starts.get(tp, 0)}
    return [
        f"group {group} has committed no offset on {source.alias} in {', '.join(without)}: on the "
        "other cluster it begins there where its auto.offset.reset says"
        for (group, _), some in sorted(left.items())
        if (without := [str(tp) for tp in some if tp in filled])
    ]


@dataclass(frozen=True, slots=True)
class ReadGroups:
    """What the groups of a cluster have committed, and one line for each unknown one."""

    committed: Mapping[str, Mapping[TopicPartition, Committed]]
    problems: tuple[str, ...]


def read_groups(
    cluster: Cluster, groups: Groups, is_wanted: IsWanted, known: Collection[str]
) -> ReadGroups:
    """Reads what the groups that *is_wanted* accepts have committed on *cluster*.

    No broker lists a group whose coordinator is down: it looks as if it did not exist. So the
    groups *known* to another cluster are looked up one by one.
    """
    listed = set(filter(is_wanted, groups.states()))
    unlisted = set(filter(is_wanted, known)) - listed
    _, unknown = groups.looked_up(unlisted) if unlisted else (set(), {})
    committed, failures = groups.readable(listed)
    problems = [f"group {name} is missing: {why}" for name, why in {**unknown, **failures}.items()]
    problems += [
        f"group {name} has committed no offset on {cluster.alias}: on the other cluster it begins "
        "where its auto.offset.reset says"
        for name, offsets in sorted(committed.items())
        if not offsets
    ]
    return ReadGroups(committed, (*problems, *_kept_nowhere(cluster)))


def _kept_nowhere(cluster: Cluster) -> list[str]:
    """Returns a line if no broker leads where some groups of *cluster* are kept."""
    try:
        kept = cluster.describe([GROUPS_TOPIC]).get(GROUPS_TOPIC)
    except ClusterError:  # the user may not DESCRIBE it, as MirrorMaker 2's need not
        return []
    if kept is None or not kept.leaderless:
        return []
    text = (
        f"no broker of cluster {cluster.alias} leads {len(kept.leaderless)} of {kept.partitions} "
        f"partitions of {GROUPS_TOPIC}: the groups that are kept there are not known, and all of "
        "them are missing; start the brokers, then ask again"
    )
    return [text]
