"""Commits that move a group to other offsets, and whether its members forbid it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replication.groups.csv_file import GroupOffset
from replication.model import Committed, TopicPartition

IDLE_STATES = frozenset({"", "EMPTY", "DEAD"})
"""States of a group without members; "" is a group that does not exist."""


@dataclass(frozen=True, slots=True)
class Move:
    """A commit to make: the new offset, the current one, and the group's state."""

    to: GroupOffset
    current: int | None
    state: str

    @property
    def is_blocked(self) -> bool:
        """Whether the group has members on that cluster."""
        return self.state not in IDLE_STATES

    def document(self) -> dict[str, object]:
        """Returns what a command prints as JSON."""
        now = {"current": self.current, "state": self.state or None, "blocked": self.is_blocked}
        return {**self.to.document(), **now}


def plan_moves(
    offsets: Iterable[GroupOffset],
    states: Mapping[str, str],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
) -> list[Move]:
    """Returns the moves to *offsets*, sorted by group and partition.

    Args:
        offsets: Where the groups are to resume.
        states: The state of every group that exists.
        committed: What these groups have committed now.
    """
    moves = []
    for offset in sorted(offsets):
        current = committed.get(offset.group, {}).get(offset.partition)
        state = states.get(offset.group, "")
        moves.append(Move(offset, current.offset if current else None, state))
    return moves


def commits_by_group(moves: Iterable[Move]) -> dict[str, dict[TopicPartition, Committed]]:
    """Returns what to commit for each group."""
    commits: dict[str, dict[TopicPartition, Committed]] = {}
    for move in moves:
        commits.setdefault(move.to.group, {})[move.to.partition] = Committed(move.to.offset)
    return commits
