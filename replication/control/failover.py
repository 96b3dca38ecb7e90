"""Moving groups between the clusters by hand: where they stand, where to, and doing it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.flows.checkpoints.rounds import checkpoints_topic, read_checkpoints
from replication.flows.checkpoints.translate import group_positions
from replication.flows.context import FlowContext
from replication.groups.csv_file import GroupOffset
from replication.groups.positions import GroupPosition
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.model import Committed, TopicPartition
from replication.offsets.map import NoAnswer
from replication.state.offset_table import OffsetTable
from replication.topics.selection import remote_topics

Chosen = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group in one partition, on both sides.

    ``lag`` counts source offsets up to the log end, ``state`` is the group's on the target ("" for
    a group that is not there), ``on_target`` what it has committed there.
    """

    position: GroupPosition
    lag: int
    state: str
    on_target: int | None


@dataclass(frozen=True, slots=True)
class Move:
    """A commit to be made: from where, and whether the group's members forbid it."""

    to: GroupOffset
    current: int | None
    state: str

    @property
    def is_blocked(self) -> bool:
        """Whether the group has members on that cluster."""
        return self.state not in {"", "EMPTY", "DEAD"}


def group_standings(context: FlowContext, chosen: Chosen) -> list[GroupStatus]:
    """Where the source's groups that *chosen* accepts stand.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    config = context.config
    with (
        Groups(context.spark, config.flow.source, config.source.admin) as source,
        Groups(context.spark, config.flow.target, config.target.admin) as target,
    ):
        positions = _positions(context, source, chosen)
        ends = context.source.log_ends({it.upstream for it in positions})
        states = target.states()
        there = target.committed({it.group for it in positions} & states.keys())
    return [
        GroupStatus(
            it,
            max(0, ends.get(it.upstream, it.committed.offset) - it.committed.offset),
            states.get(it.group, ""),
            _offset(there.get(it.group, {}).get(it.remote)),
        )
        for it in positions
    ]


def failover_offsets(context: FlowContext, chosen: Chosen) -> list[GroupOffset]:
    """Where the source's groups go on, on the target; those without an answer are left out."""
    config = context.config
    with Groups(context.spark, config.flow.source, config.source.admin) as source:
        positions = _positions(context, source, chosen)
    return [
        GroupOffset(it.group, it.remote, it.downstream)
        for it in positions
        if it.downstream is not None
    ]


def checkpointed_offsets(target: Cluster, config: FlowConfig, chosen: Chosen) -> list[GroupOffset]:
    """The same from the checkpoints on the target: all there is when the source is down."""
    newest = read_checkpoints(checkpoints_topic(target, config))
    return [
        GroupOffset(it.group, it.partition, it.downstream)
        for it in newest.values()
        if chosen(it.group)
    ]


def failback_offsets(context: FlowContext, chosen: Chosen) -> tuple[list[GroupOffset], list[str]]:
    """Where the target's groups go on, on the source, by the inverse of the offset map.

    Returns:
        The offsets, and a line for each position that has none.
    """
    config = context.config
    with Groups(context.spark, config.flow.target, config.target.admin) as target:
        committed = target.committed([name for name in target.states() if chosen(name)])
    upstream = _upstream_topics(context)
    stands = [
        (group, TopicPartition(upstream[tp.topic], tp.partition), it.offset)
        for group, its in sorted(committed.items())
        for tp, it in sorted(its.items())
        if tp.topic in upstream
    ]
    maps = OffsetTable(context.tables, config.flow).maps({tp: 0 for _, tp, _ in stands})
    earliest = context.source.earliest(maps)
    offsets, problems = [], []
    for group, tp, offset in stands:
        answer = maps[tp].offsets.translate_back(offset) if tp in maps else None
        if answer is None or isinstance(answer, NoAnswer):
            reason = answer.reason if answer else "nothing replicated"
            problems.append(f"{group} {tp}: target offset {offset} has no answer: {reason}")
            continue
        if answer.offset < earliest.get(tp, 0):
            problems.append(
                f"{group} {tp}: offset {answer.offset} is gone on {config.flow.source}, which "
                f"starts at {earliest[tp]}; that is where the group goes on"
            )
        offsets.append(GroupOffset(group, tp, max(answer.offset, earliest.get(tp, 0))))
    return offsets, problems


def moves(groups: Groups, offsets: Collection[GroupOffset]) -> list[Move]:
    """What committing *offsets* would change."""
    states = groups.states()
    current = groups.committed({it.group for it in offsets} & states.keys())
    return [
        Move(
            it,
            _offset(current.get(it.group, {}).get(it.partition)),
            states.get(it.group, ""),
        )
        for it in sorted(offsets)
    ]


def apply(groups: Groups, planned: Iterable[Move]) -> None:
    """Commits *planned*, group by group.

    Raises:
        GroupActiveError: A group has members; those before it are moved.
    """
    by_group: dict[str, dict[TopicPartition, Committed]] = {}
    for move in planned:
        by_group.setdefault(move.to.group, {})[move.to.partition] = Committed(move.to.offset)
    for group, offsets in by_group.items():
        groups.commit(group, offsets)


def _positions(context: FlowContext, source: Groups, chosen: Chosen) -> list[GroupPosition]:
    names = [name for name in source.states() if chosen(name)]
    return group_positions(context, source, names)


def _upstream_topics(context: FlowContext) -> dict[str, str]:
    """Remote topic -> the upstream topic it is a copy of, for the topics of the flow."""
    config = context.config
    topics = remote_topics(config, context.source.topic_names())
    return {remote: topic for topic, remote in topics.items()}


def _offset(committed: Committed | None) -> int | None:
    return committed.offset if committed else None
