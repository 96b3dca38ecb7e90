"""Translated group positions, the checkpoints they produce, and the commits to make. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from replication.groups.csv_file import GroupOffset
from replication.mm2.wire import Checkpoint
from replication.model import Committed, OnRewind, TopicPartition
from replication.offsets.map import NoAnswer, Translation, quality

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


# Which translated positions may be emitted while older records are still being copied.
#
# A group that is ahead of replication translates to the end of what is replicated. That is always
# safe, but during the first bulk copy it is a position that the group passed long ago: the group
# would be committed to offset 0 and then moved forward with the copy. So a group waits until the
# offset map covers the position at which the group was first seen. From then on it is ahead by no
# more than the copy's lag, and its positions are emitted.
#
# What lies between the map's end and a group's position need not be a record: a transaction's
# marker is never copied. So nobody waits for a map that has stopped growing.


@dataclass(slots=True)
class _Waiting:
    """A position that the map has not reached, and since when the map has not grown."""

    seen_at: int
    replicated_until: int
    since: float


class FirstSeen:
    """The positions at which groups were first seen and that replication has not reached yet.

    Args:
        stalled_after_seconds: How long a map must not have grown for nobody to wait for it; longer
            than the time between two additions to the map of a flow that copies.
    """

    def __init__(self, stalled_after_seconds: float) -> None:
        self._stalled_after_seconds = stalled_after_seconds
        self._waiting: dict[GroupPartition, _Waiting] = {}
        self._reached: set[GroupPartition] = set()

    def ready(
        self,
        positions: Iterable[GroupPosition],
        replicated_until: Mapping[TopicPartition, int],
        now: float,
    ) -> list[GroupPosition]:
        """Returns those of *positions* that may be emitted.

        Args:
            positions: Of one round. A new one is remembered until replication reaches it.
            replicated_until: The source offset up to which each upstream partition is replicated;
                a partition that was never replicated is absent.
            now: A monotonic time in seconds.
        """
        return [
            position
            for position in positions
            if self._is_ready(position, replicated_until.get(position.upstream, -1), now)
        ]

    def _is_ready(self, position: GroupPosition, until: int, now: float) -> bool:
        key = position.key
        if key in self._reached:
            return True
        new = _Waiting(position.committed.offset, until, now)
        waiting = self._waiting.setdefault(key, new)
        if until > waiting.replicated_until:
            waiting.replicated_until = until
            waiting.since = now
        is_stalled = now - waiting.since >= self._stalled_after_seconds
        if until < waiting.seen_at and not is_stalled:
            return False
        del self._waiting[key]
        self._reached.add(key)
        return True


# Commits that move a group to other offsets, and whether its members forbid it.

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
    commits: dict[str, dict[TopicPartition, Committed]] = {}
    for move in moves:
        commits.setdefault(move.to.group, {})[move.to.partition] = Committed(move.to.offset)
    return commits


# Why a group's offset on the target is, or is not, the one of the source.

SyncCode = Literal[
    "in-step",
    "due",
    "off",
    "not-selected",
    "shared-topic",
    "no-offset",
    "ahead",
    "active",
    "refused",
]


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """What group sync does with one position: a code for programs, and a text."""

    code: SyncCode
    text: str


@dataclass(frozen=True, slots=True)
class SyncRules:
    """What the flow says of a group: whether it syncs at all, and whether this group is its own.

    Args:
        is_enabled: ``sync.group.offsets.enabled``.
        is_selected: Whether ``groups`` selects the group.
        is_shared: Whether other sources write the remote topic as well.
        refusal: Why the target has rejected the group; "" if it has not.
    """

    is_enabled: bool
    is_selected: bool
    is_shared: bool
    refusal: str = ""


def sync_answer(
    position: GroupPosition, on_target: int | None, state: str, rules: SyncRules
) -> SyncAnswer:
    """Returns why the target has *on_target* for *position*, and what becomes of it.

    Args:
        position: Of the group on the source, and its translation.
        on_target: What the group has committed on the target; None if nothing.
        state: The group's state there; "" for a group that does not exist.
        rules: What the flow says of it.
    """
    wanted = position.downstream
    is_ahead = wanted is not None and on_target is not None and on_target > wanted
    answers: list[tuple[bool, SyncCode, str]] = [
        (wanted is None, "no-offset", f"no offset is safe: {quality(position.answer)}"),
        (on_target == wanted, "in-step", "the target has this offset"),
        (not rules.is_enabled, "off", "sync.group.offsets.enabled is false"),
        (not rules.is_selected, "not-selected", "groups or groups.exclude leaves it out"),
        (rules.is_shared, "shared-topic", "several sources write the topic: no group is moved"),
        (state not in IDLE_STATES, "active", "the group has members on the target"),
        (bool(rules.refusal), "refused", rules.refusal),
        (is_ahead, "ahead", "the target's offset is higher, and offsets only move forward"),
        (True, "due", "the next round commits it, if a job runs and nothing holds the flow"),
    ]
    return next(SyncAnswer(code, text) for holds, code, text in answers if holds)


REJECTED: Final = "group-rejected"
ACCEPTED: Final = "group-accepted"

KEYS: Final = ["kind", "group", "topic", "text"]
"""The newest row of each value of these columns of ``events`` is asked for. The text names the
cluster, which has no column in a table of an earlier version."""


class Rejected:
    """The last that was said of each group: by which cluster, and for which internal topic."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, str | None], str] = {}

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Rejected":
        """Returns what *rows* of ``events`` say, those of other kinds and versions left out."""
        found = cls()
        for row in sorted(rows, key=lambda row: row["at"]):
            if row["kind"] in {REJECTED, ACCEPTED} and row.get("cluster") and row["group"]:
                found.add(row["kind"], row)
        return found

    def add(self, kind: str, row: Mapping[str, Any]) -> None:
        text = row["text"] if kind == REJECTED else ""
        self._texts[row["group"], row["cluster"], row.get("topic")] = text

    def get(self, group: str, cluster: str, topic: str | None = None) -> str:
        """Returns why *cluster* rejects *group*; "" if it does not, as far as anybody has said."""
        return self._texts.get((group, cluster, topic), "")
