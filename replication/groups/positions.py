"""Consumer groups on the way to the target: positions, checkpoints, what to commit there. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replication.config.tree import OnRewind
from replication.mm2.wire import Checkpoint
from replication.model import Committed, TopicPartition
from replication.offsets.map import NoAnswer, Translation

Key = tuple[str, TopicPartition]
"""A group and a remote partition: what a checkpoint is about."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group stands on the source, and where that is on the target."""

    group: str
    upstream: TopicPartition
    remote: TopicPartition
    committed: Committed
    answer: Translation

    @property
    def key(self) -> Key:
        """What its checkpoint is about."""
        return self.group, self.remote

    @property
    def downstream(self) -> int | None:
        """The next offset to read on the target, None where no answer is safe."""
        return None if isinstance(self.answer, NoAnswer) else self.answer.offset

    @property
    def reread(self) -> int:
        """How many records, at most, the group reads twice if it goes on there."""
        return getattr(self.answer, "reread", 0)

    def checkpoint(self) -> Checkpoint:
        """The checkpoint on the wire; only for a position that has a downstream.

        Raises:
            ValueError: It has none.
        """
        if self.downstream is None:
            raise ValueError(f"{self.group} has no position in {self.remote}: {self.answer}")
        return Checkpoint(
            self.group, self.remote, self.committed.offset, self.downstream, self.committed.metadata
        )


def should_emit(position: GroupPosition, previous: Checkpoint | None) -> bool:
    """Whether *position* makes a checkpoint, by MirrorMaker 2's rule (mm2.md, 7.3).

    A checkpoint never moves a group back, unless the group itself went back on the source.
    """
    if position.downstream is None:
        return False
    return (
        previous is None
        or is_rewound(position, previous)
        or position.downstream > previous.downstream
    )


def is_rewound(position: GroupPosition, previous: Checkpoint | None) -> bool:
    """Whether the group was set back on the source since *previous*."""
    return previous is not None and position.committed.offset < previous.upstream


def commits(
    positions: Iterable[GroupPosition],
    current: Mapping[TopicPartition, Committed],
    rewound: Iterable[Key],
    on_rewind: OnRewind,
) -> dict[TopicPartition, Committed]:
    """What to commit for one idle group on the target.

    Only forwards (mm2.md, 7.4); backwards where the source's group was set back and *on_rewind*
    says to follow.

    Args:
        positions: Of one group.
        current: What the group has committed on the target; empty for a new group. It must be
            known: a group that could not be asked is none of this function's business.
        rewound: Keys whose group was set back on the source and not followed yet.
        on_rewind: ``sync.group.offsets.on.rewind``.
    """
    back = set(rewound) if on_rewind == "follow" else set()
    return {
        it.remote: Committed(it.downstream, it.committed.metadata)
        for it in positions
        if it.downstream is not None
        and (
            it.remote not in current
            or current[it.remote].offset < it.downstream
            or (it.key in back and current[it.remote].offset > it.downstream)
        )
    }
