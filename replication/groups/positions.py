"""Translated group positions, the checkpoints they produce, and the commits to make. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replication.mm2.wire import Checkpoint
from replication.model import Committed, OnRewind, TopicPartition
from replication.offsets.map import NoAnswer, Translation

GroupPartition = tuple[str, TopicPartition]
"""A group and a remote partition: what a checkpoint is about."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offset on the source, and its translation to the target.

    Args:
        group: Its name.
        upstream: The partition on the source.
        remote: Its copy on the target.
        committed: What the group has committed there.
        answer: The translation.
        empty_until: The source offset up to which no record follows; 0 if that is unknown.
    """

    group: str
    upstream: TopicPartition
    remote: TopicPartition
    committed: Committed
    answer: Translation
    empty_until: int = 0

    @property
    def reads_from(self) -> int:
        """The first source offset from which on there may be a record for the group."""
        return max(self.committed.offset, self.empty_until)

    @property
    def key(self) -> GroupPartition:
        """The group and the partition that its checkpoint is about."""
        return self.group, self.remote

    @property
    def downstream(self) -> int | None:
        """The next offset to read on the target; None if no offset is safe."""
        return None if isinstance(self.answer, NoAnswer) else self.answer.offset

    @property
    def reread(self) -> int:
        """How many records, at most, the group reads twice if it resumes there."""
        return 0 if isinstance(self.answer, NoAnswer) else self.answer.reread

    def checkpoint(self) -> Checkpoint:
        """Returns the checkpoint to write, for a position that has a downstream offset.

        Raises:
            ValueError: It has none.
        """
        if self.downstream is None:
            raise ValueError(f"{self.group} has no position in {self.remote}: {self.answer}")
        return Checkpoint(
            self.group, self.remote, self.committed.offset, self.downstream, self.committed.metadata
        )


def should_emit(position: GroupPosition, previous: Checkpoint | None) -> bool:
    """Returns whether a checkpoint should be emitted for *position*.

    The rule is that of MirrorMaker 2's `MirrorCheckpointTask`: a checkpoint never moves a group
    back, unless the group itself was rewound on the source.
    """
    if position.downstream is None:
        return False
    return (
        previous is None
        or is_rewound(position, previous)
        or position.downstream > previous.downstream
    )


def is_rewound(position: GroupPosition, previous: Checkpoint | None) -> bool:
    """Returns whether the group was rewound on the source since *previous*."""
    return previous is not None and position.committed.offset < previous.upstream


def plan_commits(
    positions: Iterable[GroupPosition],
    current: Mapping[TopicPartition, Committed],
    rewound: Iterable[GroupPartition],
    on_rewind: OnRewind,
) -> dict[TopicPartition, Committed]:
    """Returns the offsets to commit on the target for one idle group.

    Offsets only move forward, as in MirrorMaker 2 (`MirrorCheckpointTask.syncGroupOffset`). They
    move back only where the source group was rewound and *on_rewind* is ``follow``.

    Args:
        positions: The positions of one group.
        current: The group's committed offsets on the target; empty for a new group. Callers must
            exclude groups whose offsets could not be read.
        rewound: Keys whose group was rewound on the source and has not been followed yet.
        on_rewind: ``sync.group.offsets.on.rewind``.
    """
    may_move_back = set(rewound) if on_rewind == "follow" else set()
    return {
        position.remote: Committed(position.downstream, position.committed.metadata)
        for position in positions
        if position.downstream is not None
        and _is_due(
            position.downstream,
            current.get(position.remote),
            may_move_back=position.key in may_move_back,
        )
    }


def _is_due(downstream: int, current: Committed | None, *, may_move_back: bool) -> bool:
    if current is None:
        return True
    return current.offset < downstream or (may_move_back and current.offset > downstream)
