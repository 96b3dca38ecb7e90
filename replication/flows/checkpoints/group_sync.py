"""Commits translated offsets for idle groups (``sync.group.offsets.*``).

Kafka rejects commits for active groups: such a group reads on the target.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby

from replication.errors import ClusterError
from replication.flows.checkpoints.rejected_groups import RejectedGroups
from replication.flows.context import FlowContext
from replication.groups.positions import GroupPartition, GroupPosition, plan_commits
from replication.kafka.consumer_groups import GroupActiveError, Groups
from replication.kafka.diagnosis import CallError
from replication.model import Committed, TopicPartition

IDLE = {"EMPTY", "DEAD"}


class GroupSync:
    """Moves one flow's groups on the target, and remembers which of them were active.

    ``rewound`` holds the group partitions that were rewound on the source and not yet on the
    target; the checkpoint rounds add to it.
    """

    def __init__(
        self, context: FlowContext, rejected: RejectedGroups, target: Groups | None = None
    ) -> None:
        self._context = context
        self._flow = context.config.flow
        self._given = target
        self._rejected = rejected
        self.rewound: set[GroupPartition] = set()
        self._blocked: dict[str, str] = {}

    @cached_property
    def _target(self) -> Groups:
        """Created lazily, so that a failing client cannot stop replication."""
        flow = self._flow
        return self._given or Groups(
            self._context.jvm, flow.target, self._context.config.target.admin
        )

    def move(self, positions: Iterable[GroupPosition]) -> ClusterError | None:
        """Commits what `replication.groups.positions.plan_commits` returns, group by group.

        A group whose offsets on the target could not be read is skipped: without them, a commit
        might move the group back. A group that the target rejects is reported once.

        Args:
            positions: Translated positions of the source's groups, sorted by group.

        Returns:
            Why a group was not moved that may move at the next try; all others are moved.

        Raises:
            ClusterError: The target does not answer.
        """
        states = self._target.states()
        by_group = {
            group: list(of_group)
            for group, of_group in groupby(positions, lambda position: position.group)
        }
        idle = [name for name in by_group if states.get(name, "EMPTY") in IDLE]
        blocked = by_group.keys() - set(idle)
        self._context.board.note_blocked(blocked)
        for group in blocked:
            self._report_blocked(group, states[group])
        # all of them: one that is not listed may have a coordinator that is down or still loads it
        current, failures = self._target.readable(idle)
        rejections = {g: str(error) for g, error in failures.items() if not error.is_temporary}
        temporary = [error for error in failures.values() if error.is_temporary]
        moved = set[str]()
        for group in idle:
            if group not in current:
                continue
            try:
                if self._move(by_group[group], current[group]):
                    moved.add(group)
            except GroupActiveError as error:
                if group in states:  # it became active after its state was read
                    self._context.log.warning("group_became_active", group=group, text=error)
                else:  # it was not listed: its members are no consumers of Kafka's
                    rejections[group] = str(error)
            except CallError as error:
                if error.is_temporary:
                    temporary.append(error)
                else:
                    rejections[group] = str(error)
        self._rejected.report(rejections, self._flow.target, accepted=moved)
        return temporary[0] if temporary else None

    def _move(
        self, positions: Sequence[GroupPosition], current: Mapping[TopicPartition, Committed]
    ) -> bool:
        """Moves one group; returns whether there was anything to commit.

        Raises:
            GroupActiveError: The group has members.
            CallError: The target rejects it, or does not answer.
        """
        group, on_rewind = positions[0].group, self._context.config.groups.sync_on_rewind
        wanted = plan_commits(positions, current, self.rewound, on_rewind)
        with self._context.act("checkpoints") as may:
            if not may:
                return False
            self._target.commit(group, wanted)
        self.rewound -= {position.key for position in positions}
        self._blocked.pop(group, None)
        if wanted:
            self._context.log.debug("group_moved", group=group, partitions=len(wanted))
        return bool(wanted)

    def _report_blocked(self, group: str, state: str) -> None:
        """Records which members keep *group* active; again only when they change."""
        try:
            members = ", ".join(self._target.members(group)) or "unknown"
        except ClusterError as error:
            members = f"unknown ({error})"
        if self._blocked.get(group) == members:
            return
        self._blocked[group] = members
        flow = self._flow
        self._context.tables.record_event(
            flow,
            "group-active",
            f"group {group} is active ({state.lower()}) on {flow.target}, so its offsets cannot be "
            f"changed; members: {members}. Its checkpoints are not held up; stop these members, or "
            "exclude the group with groups.exclude",
            group=group,
            reaction="skip",
        )
