"""Commit translated offsets for groups that sleep on the target (``sync.group.offsets.*``).

Kafka refuses to move a group with members, and so it should: such a group reads on the target.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.groups.positions import GroupPartition, GroupPosition, plan_commits
from replication.kafka.consumer_groups import GroupActiveError, Groups
from replication.model import Committed, TopicPartition

log = logging.getLogger(__name__)

IDLE = {"EMPTY", "DEAD"}


class GroupSync:
    """Moves one flow's groups on the target, and remembers who could not be moved.

    ``rewound`` holds the keys whose group was set back on the source and not followed yet; whoever
    sees that adds to it.
    """

    def __init__(self, context: FlowContext, target: Groups | None = None) -> None:
        self._context, self._config, self._given = context, context.config, target
        self.rewound: set[GroupPartition] = set()
        self._blocked: dict[str, str] = {}

    @cached_property
    def _target(self) -> Groups:
        """Made on first use: a client that cannot be made must not end the flow beside it."""
        flow = self._config.flow
        return self._given or Groups(self._context.jvm, flow.target, self._config.target.admin)

    def move(self, positions: Iterable[GroupPosition]) -> None:
        """Commits what `replication.groups.positions.commits` says, group by group.

        A group whose offsets on the target cannot be told is left alone: not knowing must never
        move a group back (mm2.md, 13, number 8).

        Args:
            positions: On the source, translated; sorted by group.

        Raises:
            ClusterError: The target does not answer, or refuses a group; all others are moved.
        """
        states = self._target.states()
        by_group = {name: list(its) for name, its in groupby(positions, lambda it: it.group)}
        idle = [name for name in by_group if states.get(name, "EMPTY") in IDLE]
        for group in by_group.keys() - set(idle):
            self._report_blocked(group, states[group])
        current = self._target.committed([name for name in idle if name in states])
        refused: list[ClusterError] = []
        for group in idle:
            if group not in states or group in current:
                refused += self._move(by_group[group], current.get(group, {}))
        if refused:
            raise refused[0]

    def _move(
        self, positions: Sequence[GroupPosition], current: Mapping[TopicPartition, Committed]
    ) -> list[ClusterError]:
        """Moves one group; what the target says against it, if anything."""
        group, on_rewind = positions[0].group, self._config.groups.sync_on_rewind
        wanted = plan_commits(positions, current, self.rewound, on_rewind)
        try:
            self._target.commit(group, wanted)
        except GroupActiveError as error:  # it woke up between the two questions
            log.warning("flow=%s %s", self._config.flow, error)
            return []
        except ClusterError as error:
            log.warning("flow=%s %s", self._config.flow, error)
            return [error]
        self.rewound -= {it.key for it in positions}
        self._blocked.pop(group, None)
        if wanted:
            log.info("flow=%s moved group=%s partitions=%d", self._config.flow, group, len(wanted))
        return []

    def _report_blocked(self, group: str, state: str) -> None:
        """Says once who keeps *group* from being moved, and again when that changes."""
        try:
            members = ", ".join(self._target.members(group)) or "unknown"
        except ClusterError as error:
            members = f"unknown ({error})"
        if self._blocked.get(group) == members:
            return
        self._blocked[group] = members
        flow = self._config.flow
        self._context.tables.record_event(
            flow,
            "group-active",
            f"group {group} is {state.lower()} on {flow.target} and cannot be moved there while it "
            f"has members: {members}. Its checkpoints are written all the same; stop these members "
            "to let it be moved, or leave it out with groups.exclude",
            group=group,
            policy="skip",
        )
