"""Each consumer group's committed offsets on both clusters of a flow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replication.config.tree import FlowConfig
from replication.control.view import FlowView
from replication.groups.positions import GroupPosition
from replication.kafka.consumer_groups import Groups
from replication.mm2.filters import NameFilter
from replication.offsets.wording import fields
from replication.upkeep.groups import translate_groups

IsWanted = Callable[[str], bool]
"""Whether a group is one of those the operator asked for."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group in one partition, on both clusters.

    Args:
        position: Its committed offset on the source, and that offset's translation.
        lag: Source offsets between the committed offset and the log end.
        state: The group's state on the target; "" for a group that does not exist there.
        on_target: Its committed offset on the target, None if there is none.
    """

    position: GroupPosition
    lag: int
    state: str
    on_target: int | None

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
        }


def wanted_groups(config: FlowConfig, names: Sequence[str]) -> IsWanted:
    """Accepts the groups that the operator *names*, or those that the configuration selects."""
    return NameFilter(tuple(names)).accepts if names else config.groups.accepts


def group_status(view: FlowView, is_wanted: IsWanted) -> list[GroupStatus]:
    """Returns the status of the source's groups that *is_wanted* accepts, by group and partition.

    Raises:
        ClusterError: A cluster does not answer.
        StateError: The offset map cannot be read.
    """
    with (
        view.open_groups(view.config.source) as source,
        view.open_groups(view.config.target) as target,
    ):
        positions = source_positions(view, source, is_wanted)
        states = target.states()
        committed = target.committed({position.group for position in positions})
    ends = view.source.log_ends({position.upstream for position in positions})
    statuses = []
    for position in positions:
        offset = position.committed.offset
        on_target = committed.get(position.group, {}).get(position.remote)
        statuses.append(
            GroupStatus(
                position,
                lag=max(0, ends.get(position.upstream, offset) - offset),
                state=states.get(position.group, ""),
                on_target=on_target.offset if on_target else None,
            )
        )
    return statuses


def source_positions(view: FlowView, source: Groups, is_wanted: IsWanted) -> list[GroupPosition]:
    """Returns the translated positions of the source's groups that *is_wanted* accepts."""
    committed = source.committed([group for group in source.states() if is_wanted(group)])
    return translate_groups(view.config, view.source, committed, view.offsets.maps)
