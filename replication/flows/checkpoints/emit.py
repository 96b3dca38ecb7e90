"""Writes checkpoints: to the target's checkpoints topic at once, to the Delta table behind.

The topic decides what was emitted. The table is a history for SQL, written about once a minute,
because a Delta commit costs more CPU than a round of translations.
"""

import time
from collections.abc import Iterable

from replication.errors import StateError
from replication.flows.checkpoints.rejected_groups import RejectedGroups
from replication.flows.context import FlowContext
from replication.groups.positions import GroupPartition, GroupPosition, should_emit
from replication.mm2.wire import Checkpoint, WireError
from replication.offsets.map import Exact, NoAnswer
from replication.state.tables import now
from replication.upkeep.checkpoints import checkpoints_topic, read_checkpoints

HISTORY_SECONDS = 60.0


class Emission:
    """The checkpoints of one flow, and the newest one of each group and partition."""

    def __init__(self, context: FlowContext, rejected: RejectedGroups) -> None:
        self._context = context
        self._flow = context.config.flow
        self._rejected = rejected
        self._topic = checkpoints_topic(context.target, context.config)
        self._newest: dict[GroupPartition, Checkpoint] | None = None
        self._unanswered: set[GroupPartition] = set()
        self._history: list[dict[str, object]] = []
        self._written_at = time.monotonic()
        self._seen: dict[GroupPartition, tuple[int, float]] = {}  # commits, and since when

    def saw(self, positions: Iterable[GroupPosition]) -> None:
        """Notes what the groups have committed now, before anything else may hold it up."""
        now, before = time.monotonic(), self._seen
        self._seen = {}
        for position in positions:
            offset, (then, since) = position.committed.offset, before.get(position.key, (-1, now))
            self._seen[position.key] = (offset, since if then == offset else now)

    def newest(self) -> dict[GroupPartition, Checkpoint]:
        """Returns each key's newest checkpoint, whoever wrote it; reads the topic only once.

        Raises:
            ClusterError: The target does not answer.
        """
        if self._newest is None:
            self._create()
            self._newest = read_checkpoints(self._topic)
        return self._newest

    def _create(self) -> None:
        with self._context.act("checkpoints") as may:
            if may and self._context.config.groups.checkpoints_enabled:
                self._topic.create()

    def forget(self) -> None:
        """Makes `newest` read the topic again: another process may have emitted meanwhile."""
        self._newest = None

    def emit(self, positions: Iterable[GroupPosition]) -> None:
        """Emits a checkpoint for each of *positions* that needs one.

        A group whose checkpoint the target rejects is reported once.

        Raises:
            ClusterError: The target does not answer, or rejects all checkpoints.
        """
        newest, changed = self.newest(), []
        for position in positions:
            if should_emit(position, newest.get(position.key)):
                changed.append(position)
            elif isinstance(position.answer, NoAnswer):
                self._warn_once(position, position.answer)
        if not changed:
            return
        encoded, unfit = list[tuple[GroupPosition, tuple[bytes, bytes]]](), dict[str, str]()
        for position in changed:
            each = position.checkpoint()
            try:  # the metadata of a commit is the group's, and may be longer than MM2's format has
                encoded.append((position, (each.key(), each.value())))
            except WireError as error:
                unfit[position.group] = str(error)
        changed = [position for position, _ in encoded]
        with self._context.act("checkpoints") as may:
            if not may:
                return
            self._topic.create()  # while the flow was held, nobody did
            rejected = self._topic.write_each([record for _, record in encoded])
        written = [each for number, each in enumerate(changed) if number not in rejected]
        for position in written:
            newest[position.key] = position.checkpoint()
        self._history += [self._row(position) for position in written]
        now = time.monotonic()
        seen = (self._seen.get(position.key, (0, now))[1] for position in written)
        self._context.board.count_checkpoints([now - since for since in seen])
        self._rejected.report(
            unfit | {changed[at].group: str(why) for at, why in rejected.items()},
            self._flow.target,
            self._topic.name,
            accepted={position.group for position in written},
        )
        self._context.log.debug("checkpoints_emitted", checkpoints=len(written))

    def write_history(self, *, at_once: bool = False) -> None:
        """Appends what was emitted to the table ``checkpoints``, if that is due or *at_once*.

        Rows that cannot be written are kept for the next time, unless *at_once*.

        Raises:
            StateError: The table cannot be written, and this was the last try.
        """
        is_due = time.monotonic() - self._written_at >= HISTORY_SECONDS
        if not self._history or not (at_once or is_due):
            return
        self._written_at = time.monotonic()
        try:
            self._context.tables.append("checkpoints", self._history)
        except StateError as error:
            if at_once:
                raise
            self._context.log.warning("checkpoint_history_late", text=error)
        else:
            self._history = []

    def _warn_once(self, position: GroupPosition, answer: NoAnswer) -> None:
        if position.key not in self._unanswered:
            self._unanswered.add(position.key)
            self._context.log.warning(
                "group_without_checkpoint",
                group=position.group,
                partition=position.upstream,
                offset=position.committed.offset,
                text=f"{answer.reason}; the first offset with an answer is {answer.first}",
            )

    def _row(self, position: GroupPosition) -> dict[str, object]:
        return {
            "flow": str(self._flow),
            "group": position.group,
            "topic": position.upstream.topic,
            "partition": position.upstream.partition,
            "remote_topic": position.remote.topic,
            "upstream": position.committed.offset,
            "downstream": position.downstream,
            "exact": isinstance(position.answer, Exact),
            "reread": position.reread,
            "metadata": position.committed.metadata,
            "at": now(),
        }
