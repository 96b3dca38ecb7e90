"""Manual failover and failback: finds the groups' offsets on the other cluster, commits them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.control.groups import FlowView, IsWanted, read_groups, source_positions
from replication.errors import ClusterError
from replication.groups.csv_file import GroupOffset
from replication.groups.positions import Move, commits_by_group, plan_moves
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.model import TopicPartition
from replication.offsets.map import Bounded, NoAnswer, Translation, quality
from replication.topics.selection import remote_topics
from replication.upkeep.groups import checkpoints_topic, read_checkpoints

NOT_REPLICATED = NoAnswer("nothing replicated", None)


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Offsets to commit on the other cluster, and one line for each position with a problem."""

    offsets: tuple[GroupOffset, ...]
    problems: tuple[str, ...]

    def document(self, cluster: str) -> dict[str, object]:
        """Returns what a command prints as JSON; *cluster* is the one to commit them on."""
        offsets = [offset.document() for offset in sorted(self.offsets)]
        return {"cluster": cluster, "offsets": offsets, "problems": self.problems}


def failover_offsets(view: FlowView, is_wanted: IsWanted) -> GroupOffsets:
    """Returns the offsets on the target at which the source's groups resume."""
    positions, unknown = source_positions(view, is_wanted)
    return GroupOffsets(
        tuple(
            GroupOffset(position.group, position.remote, position.downstream)
            for position in positions
            if position.downstream is not None
        ),
        unknown
        + tuple(
            f"group {position.group} on {position.upstream}: offset {position.committed.offset} "
            f"has no answer: {quality(position.answer)}"
            for position in positions
            if position.downstream is None
        )
        + tuple(
            f"group {position.group} on {position.upstream}: offset {position.committed.offset} is "
            f"before what was copied; offset {position.downstream} is {quality(position.answer)}"
            for position in positions
            if isinstance(position.answer, Bounded) and position.answer.never_copied
        ),
    )


def checkpointed_offsets(target: Cluster, config: FlowConfig, is_wanted: IsWanted) -> GroupOffsets:
    """Returns the same from the checkpoints on the target, for when the source is down."""
    newest = read_checkpoints(checkpoints_topic(target, config))
    return GroupOffsets(
        tuple(
            GroupOffset(checkpoint.group, checkpoint.partition, checkpoint.downstream)
            for checkpoint in newest.values()
            if is_wanted(checkpoint.group)
        ),
        (),
    )


def failback_offsets(view: FlowView, is_wanted: IsWanted) -> GroupOffsets:
    """Returns the offsets at which the target's groups resume on the source.

    The inverse offset map gives them.
    """
    with (
        view.open_groups(view.config.source) as source,
        view.open_groups(view.config.target) as target,
    ):
        found = read_groups(view.target, target, is_wanted, source.states())
    topics = remote_topics(view.config, view.source.topic_names())
    upstream = {remote: topic for topic, remote in topics.items()}
    positions = [
        GroupOffset(group, TopicPartition(upstream[tp.topic], tp.partition), position.offset)
        for group, by_partition in sorted(found.committed.items())
        for tp, position in sorted(by_partition.items())
        if tp.topic in upstream
    ]
    maps = view.offsets.maps({position.partition: 0 for position in positions})
    earliest = view.source.earliest(maps)
    offsets, problems = [], [*view.doubts, *found.problems]
    for position in positions:
        tp = position.partition
        answer: Translation = NOT_REPLICATED
        if tp in maps:
            answer = maps[tp].offsets.translate_back(position.offset, earliest.get(tp))
        where = f"group {position.group} on {tp}"
        if isinstance(answer, NoAnswer):
            problems.append(
                f"{where}: target offset {position.offset} has no answer: {quality(answer)}"
            )
            continue
        start = earliest.get(tp, 0)
        if answer.offset < start:
            problems.append(
                f"{where}: offset {answer.offset} was deleted on {view.source.alias}; the group "
                f"resumes at the earliest offset {start}"
            )
        offsets.append(GroupOffset(position.group, tp, max(answer.offset, start)))
    return GroupOffsets(tuple(offsets), tuple(problems))


@dataclass(frozen=True, slots=True)
class Doubts:
    """Objections to committing offsets: problems block it, warnings do not."""

    problems: list[str]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Moves:
    """The changes that committing offsets would make on one cluster, and objections to it."""

    cluster: str
    moves: list[Move]
    doubts: Doubts


def planned_moves(cluster: Cluster, groups: Groups, offsets: Collection[GroupOffset]) -> Moves:
    """Returns what committing *offsets* changes; a group with members is a problem.

    Raises:
        ClusterError: The cluster does not answer.
    """
    doubts, moves = _find_doubts(cluster, offsets), moves_to(groups, offsets)
    unlisted = {move.to.group for move in moves if not move.state}
    _, unknown = groups.looked_up(unlisted) if unlisted else (set(), {})
    for name, error in sorted(unknown.items()):
        doubts.problems.append(f"group {name} may exist, and have members: {error}")
    doubts.warnings.extend(
        f"group {move.to.group}, {move.to.partition}: it moves back from offset {move.current} to "
        f"{move.to.offset}, and reads up to {move.current - move.to.offset} records again"
        for move in moves
        if move.current is not None and move.to.offset < move.current
    )
    if blocked := sorted({move.to.group for move in moves if move.is_blocked}):
        members = "; ".join(f"{group}: {', '.join(groups.members(group))}" for group in blocked)
        doubts.problems.append(
            f"these groups have members on {cluster.alias}, stop them first: {members}"
        )
    return Moves(cluster.alias, moves, doubts)


def _find_doubts(cluster: Cluster, offsets: Collection[GroupOffset]) -> Doubts:
    names = {offset.partition.topic for offset in offsets}
    topics = cluster.describe(names)
    partitions = {
        offset.partition
        for offset in offsets
        if offset.partition.topic in topics
        and offset.partition.partition < topics[offset.partition.topic].partitions
    }
    ends, starts = cluster.log_ends(partitions), cluster.earliest(partitions)
    doubts = Doubts([], [])
    for topic in sorted(names - topics.keys()):
        doubts.problems.append(f"{topic}: no such topic on {cluster.alias}")
    for offset in sorted(offsets):
        tp, where = offset.partition, f"group {offset.group}, {offset.partition}"
        if tp not in ends:
            if tp.topic in topics:
                count = topics[tp.topic].partitions
                doubts.problems.append(f"{where}: the topic has {count} partitions")
        elif offset.offset > ends[tp]:
            doubts.problems.append(
                f"{where}: offset {offset.offset} is beyond the log's end, {ends[tp]}"
            )
        elif offset.offset < starts.get(tp, 0):
            doubts.warnings.append(
                f"{where}: offset {offset.offset} was deleted, the first one is {starts[tp]}; the "
                "group will follow its auto.offset.reset"
            )
    return doubts


def moves_to(groups: Groups, offsets: Collection[GroupOffset]) -> list[Move]:
    """Returns the changes that committing *offsets* would make."""
    states = groups.states()
    wanted = {offset.group for offset in offsets}
    return plan_moves(offsets, states, groups.committed(wanted))


def commit_moves(groups: Groups, moves: Iterable[Move]) -> None:
    """Commits *moves*, group by group; a group that is rejected holds up no other.

    Raises:
        ClusterError: Names every group that is not moved; all others are.
    """
    commits, errors = commits_by_group(moves), []
    for group, offsets in commits.items():
        try:
            groups.commit(group, offsets)
        except ClusterError as error:  # noqa: PERF203 - the other groups still count
            errors.append(error)
    if errors:
        lines = "".join(f"\n  - {error}" for error in errors)
        raise ClusterError(f"{len(errors)} of {len(commits)} groups are not moved:{lines}")
