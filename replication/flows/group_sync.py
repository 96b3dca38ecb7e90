"""Commit translated offsets for groups that sleep on the target (``sync.group.offsets.*``).

Kafka refuses to move a group with members, and so it should: such a group reads on the target.
"""

import logging
from collections.abc import Iterable, Mapping
from itertools import groupby

from replication.checkpoints import GroupPosition, Key, commits
from replication.config_model import FlowConfig
from replication.flows.world import World
from replication.io.groups import GroupActiveError, Groups
from replication.model import Committed, TopicPartition

log = logging.getLogger(__name__)

IDLE = {"EMPTY", "DEAD"}


class GroupSync:
    """Moves one flow's groups on the target, and remembers who could not be moved."""

    def __init__(self, world: World, config: FlowConfig) -> None:
        self._world, self._config = world, config
        self._target = Groups(world.spark, config.flow.target, config.target_admin)
        self._rewound: set[Key] = set()
        self._blocked: dict[str, str] = {}

    def move(self, positions: Iterable[GroupPosition], rewound: Iterable[Key]) -> None:
        """Commits what `replication.checkpoints.commits` says, group by group.

        A group whose offsets on the target cannot be told is left alone: not knowing must never
        move a group back (mm2.md, 13, number 8).

        Args:
            positions: On the source, translated; sorted by group.
            rewound: Keys whose group was set back on the source since the last round.

        Raises:
            ClusterError: The target does not answer.
        """
        self._rewound |= set(rewound)
        states = self._target.states()
        by_group = {name: list(its) for name, its in groupby(positions, lambda it: it.group)}
        idle = [name for name in by_group if states.get(name, "EMPTY") in IDLE]
        for group in by_group.keys() - set(idle):
            self._report_blocked(group, states[group])
        current = self._target.committed([name for name in idle if name in states])
        for group in idle:
            if group in states and group not in current:
                continue
            mine = current.get(group, {})
            wanted = commits(
                by_group[group], mine, self._rewound, self._config.groups.sync_on_rewind
            )
            if not wanted or self._commit(group, wanted):
                self._rewound -= {it.key for it in by_group[group]}

    def _commit(self, group: str, wanted: Mapping[TopicPartition, Committed]) -> bool:
        """Whether the target took it."""
        try:
            self._target.commit(group, wanted)
        except GroupActiveError as error:  # it woke up between the two questions
            log.warning("flow=%s %s", self._config.flow, error)
            return False
        self._blocked.pop(group, None)
        log.info("flow=%s moved group=%s partitions=%d", self._config.flow, group, len(wanted))
        return True

    def _report_blocked(self, group: str, state: str) -> None:
        """Says once who keeps *group* from being moved, and again when that changes."""
        members = ", ".join(self._target.members(group)) or "unknown"
        if self._blocked.get(group) == members:
            return
        self._blocked[group] = members
        flow = self._config.flow
        self._world.tables.event(
            flow,
            "group-active",
            f"group {group} is {state.lower()} on {flow.target} and cannot be moved there while it "
            f"has members: {members}. Its checkpoints are written all the same; stop these members "
            "to let it be moved, or leave it out with groups.exclude",
            group=group,
            policy="skip",
        )
