"""The checkpoint loop: translate the groups' committed offsets, emit checkpoints, sync groups.

A round reads what the groups have committed, translates it with the offset map, emits a checkpoint
where the translation changed, and commits it for groups that are idle on the target. It runs no
Spark job: the map is in memory, or is read without Spark, and the tables are written behind.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby
from threading import Event, Lock

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.changes import Overrides
from replication.errors import ClusterError, StateError
from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import UNREPORTED_BATCH_SECONDS
from replication.groups.positions import (
    ACCEPTED,
    KEYS,
    REJECTED,
    FirstSeen,
    GroupPartition,
    GroupPosition,
    Rejected,
    is_rewound,
    plan_commits,
    should_emit,
)
from replication.kafka.consumer_groups import GroupActiveError, Groups
from replication.kafka.diagnosis import CallError, InterruptedCallError
from replication.mm2.wire import Checkpoint, WireError
from replication.model import Committed, Flow, NewEvent, TopicPartition
from replication.offsets.map import Exact, NoAnswer, TopicMap
from replication.spark.counting import trigger_stream
from replication.state.tables import now, reader_of
from replication.topics.selection import group_notes, remote_topics
from replication.upkeep.groups import MapsOf, Translator, checkpoints_topic, read_checkpoints

# Reports groups that a cluster rejects, each once for each reason, and when that is over.


class RejectedGroups:
    """What was reported of one flow's groups, by this process or an earlier one.

    The newest event of a group says whether the cluster rejects it now, for whoever asks.
    """

    def __init__(self, context: FlowContext) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self._known: Rejected | None = None

    def report(
        self,
        reasons: Mapping[str, str],
        cluster: str,
        topic: str | None = None,
        accepted: Iterable[str] = (),
    ) -> None:
        """Records an event for each group whose reason is new, or that is rejected no more.

        *topic* is the internal topic that takes no record of them, None for their offsets. Of
        *accepted* groups the cluster has just taken what is meant here.
        """
        try:
            known = self._get()
        except StateError:
            if reasons:
                raise
            return  # the next round says what is over
        place = {"cluster": cluster} | ({} if topic is None else {"topic": topic})
        events = [
            NewEvent(REJECTED, text, "retry", {"group": group, **place})
            for group, reason in sorted(reasons.items())
            if known.get(group, cluster, topic) != (text := _text(group, reason))
        ]
        events += [
            NewEvent(
                ACCEPTED,
                f"cluster {cluster} rejects group {group} no more",
                "retry",
                {"group": group, **place},
            )
            for group in sorted(accepted)
            if group not in reasons and known.get(group, cluster, topic)
        ]
        for event in events:
            known.add(event.kind, {**event.details, "text": event.text})
        self._tables.record_events(self._flow, events)

    def _get(self) -> Rejected:
        if self._known is None:
            read = partial(reader_of(self._tables).newest, "events", self._flow, KEYS, ["at"])
            self._known = Rejected.of(self._tables.mended("events", self._flow, read))
        return self._known


def _text(group: str, reason: str) -> str:
    return (
        f"group {group}: {reason}. This holds up no other group; it is tried again at every "
        "interval. To leave it out, add it to groups.exclude"
    )


def live_maps(context: FlowContext) -> MapsOf:
    """Returns the flow's maps in memory; stored runs are read when an offset is first asked about.

    While no flow of this process writes the map, as in a job that runs checkpoints only, every
    question reads the table.
    """
    stored = reader_of(context.tables).offsets(context.config.flow)

    def maps_of(least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        not_loaded = context.live_map.not_loaded(least)
        if not_loaded:
            context.live_map.load(not_loaded, stored.maps(not_loaded))
        return context.live_map.maps(least, not_loaded)

    return maps_of


# Writes checkpoints: to the target's checkpoints topic at once, to the Delta table behind.
#
# The topic decides what was emitted. The table is a history for SQL, written about once a minute,
# because a Delta commit costs more CPU than a round of translations.

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
        """Returns each key's newest checkpoint, whoever wrote it; reads the topic only once."""
        if self._newest is None:
            with self._context.act("checkpoints") as may:
                if may and self._context.config.groups.checkpoints_enabled:
                    self._topic.create()
            self._newest = read_checkpoints(self._topic)
        return self._newest

    def forget(self) -> None:
        """Makes `newest` read the topic again: another process may have emitted meanwhile."""
        self._newest = None

    def emit(self, positions: Iterable[GroupPosition]) -> None:
        """Emits a checkpoint for each of *positions* that needs one.

        A group whose checkpoint the target rejects is reported once.
        """
        newest, changed = self.newest(), []
        for position in positions:
            if should_emit(position, newest.get(position.key)):
                changed.append(position)
            elif isinstance(answer := position.answer, NoAnswer):
                if position.key in self._unanswered:
                    continue
                self._unanswered.add(position.key)
                self._context.log.warning(
                    "group_without_checkpoint",
                    group=position.group,
                    partition=position.upstream,
                    offset=position.committed.offset,
                    text=f"{answer.reason}; the first offset with an answer is {answer.first}",
                )
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
        self._context.metrics.count_checkpoints([now - since for since in seen])
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


# Commits translated offsets for idle groups (``sync.group.offsets.*``).
#
# Kafka rejects commits for active groups: such a group reads on the target.

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

        Returns why a group was not moved that may move at the next try; all others are moved.
        *positions* are sorted by group.
        """
        states = self._target.states()
        by_group = {
            group: list(of_group)
            for group, of_group in groupby(positions, lambda position: position.group)
        }
        idle = [name for name in by_group if states.get(name, "EMPTY") in IDLE]
        blocked = by_group.keys() - set(idle)
        self._context.metrics.note_blocked(blocked)
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
        """Moves one group; returns whether there was anything to commit."""
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


BATCH_SECONDS = 60.0
"""A batch of the query costs about 80 ms of CPU, so one batch holds the rounds of a minute."""

ENDS_SECONDS = 2.0
"""How long a round waits for the ends of logs, of which a leader may be silent."""

CHANGES_SECONDS = 0.5
"""How long a change of the lists may go unnoticed."""

STALLED_SECONDS = 2 * UNREPORTED_BATCH_SECONDS
"""A map that has not grown for so long does not grow any more."""


class Checkpoints:
    """The rounds of one flow, and what one round remembers for the next.

    Args:
        context: Of the flow.
        target_groups: The groups on the target; by default a client of the flow's own.
    """

    def __init__(self, context: FlowContext, target_groups: Groups | None = None) -> None:
        self._context = context
        self._flow = context.config.flow
        self._rejected = RejectedGroups(context)
        self._emission = Emission(context, self._rejected)
        maps_of = live_maps(context)
        self._translator = Translator(self._flow, context.source, context.target, maps_of)
        self._sync: GroupSync | None = None
        if context.config.groups.sync_enabled:
            self._sync = GroupSync(context, self._rejected, target_groups)
        self._first_sight = FirstSeen(STALLED_SECONDS)
        self._groups: set[str] = set()
        self._gone: set[str] = set()
        self._logged: set[str] = set()
        self._ended = Event()
        self._round = Lock()  # a stopped query's last round may still run when `finish` is called
        self._refresh_at = self._emit_at = self._sync_at = 0.0

    @cached_property
    def _source(self) -> Groups:
        """Created lazily, so that a failing client cannot stop replication."""
        source = self._context.config.source
        return Groups(self._context.jvm, source.alias, source.admin)

    def round(self, *, at_once: bool = False) -> None:
        """Runs the due steps; all of them if *at_once*, also for groups that wait for the copy.

        A group that a cluster rejects is reported once, and never ends what follows. Of a flow that
        is held the groups are only looked at: nothing is written to the target.

        Raises:
            ClusterError: A cluster does not answer. Nothing is lost, the next round catches up.
            StateError: The tables cannot be read or written.
        """
        self._refresh(at_once=at_once)
        groups, clock = self._context.config.groups, time.monotonic()
        emit = groups.checkpoints_enabled and (at_once or clock >= self._emit_at)
        sync = self._sync is not None and (at_once or clock >= self._sync_at)
        if not emit and not sync:
            return
        read = self._committed()
        ends = self._ends_of(read)  # at once: the rest of a round may take long
        translated = self._translator.translate(self._context.config, read)
        newest = self._emission.newest()
        positions = translated.positions
        committed = defaultdict[TopicPartition, set[int]](set)
        for position in positions:
            committed[position.upstream].add(position.committed.offset)
        self._context.live_map.want_borders(committed)
        self._emission.saw(positions)
        self._context.metrics.end_round([*positions, *translated.untranslated], ends)
        is_held = bool(self._context.steering.held)
        if self._sync is not None and not is_held:
            self._sync.rewound |= {p.key for p in positions if is_rewound(p, newest.get(p.key))}
        if not at_once:
            positions = self._first_sight.ready(positions, translated.replicated_until, clock)
        errors: list[ClusterError] = []
        try:
            if emit:
                try:
                    if not is_held:
                        self._emission.emit(positions)
                except ClusterError as error:
                    errors.append(error)
                self._emit_at = clock + groups.checkpoints_interval_seconds
            if self._sync is not None and sync:
                # of a shared topic, another source's groups of that name would lose their place
                shares = self._context.config.shares
                own = (position for position in positions if not shares(position.remote.topic))
                if not is_held and (unmoved := self._sync.move(own)):
                    errors.append(unmoved)
                self._sync_at = clock + groups.sync_interval_seconds
        finally:
            self._emission.write_history(at_once=at_once)
        if errors:
            raise errors[0]

    def _committed(self) -> dict[str, dict[TopicPartition, Committed]]:
        """Returns what the source's groups have committed, of those that can be read."""
        found, failures = self._source.readable(self._groups)
        for error in failures.values():
            if error.is_temporary:
                self._context.log.warning("group_skipped", text=error)
        self._rejected.report(
            {group: str(error) for group, error in failures.items() if not error.is_temporary},
            self._flow.source,
            accepted=found,
        )
        return found

    def _ends_of(
        self, committed: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> Mapping[TopicPartition, int]:
        """Returns where the logs end in which groups have *committed*, as far as that is known."""
        config = self._context.config
        read = {tp for offsets in committed.values() for tp in offsets}
        copied = remote_topics(config, {tp.topic for tp in read})
        with suppress(ClusterError):  # which costs the figure of lag only
            return self._context.source.ends_at_once(
                [tp for tp in read if tp.topic in copied], config.isolation, ENDS_SECONDS
            )
        return {}

    def query(self) -> DataStreamWriter:
        """Returns the streaming query that runs the rounds; `end_batch` ends its batch early."""
        ended = self._ended = Event()
        self._emission.forget()  # while this was a standby, another process may have emitted

        def batch(_rows: DataFrame, _number: int) -> None:
            until = time.monotonic() + BATCH_SECONDS
            while time.monotonic() < until and not ended.is_set():
                steering = self._context.steering
                self._round_or_warn()
                due_at = min(due_at for due_at, _ in self._steps())
                self._wait(ended, min(due_at, until), steering)

        return trigger_stream(self._context.tables.spark).writeStream.foreachBatch(batch)

    def _wait(self, ended: Event, until: float, steering: Overrides) -> None:
        """Waits for the next step, or until operators have changed the flow since *steering*."""
        while self._context.steering is steering:
            left = until - time.monotonic()
            if left <= 0 or ended.wait(min(left, CHANGES_SECONDS)):
                return
        self._refresh_at = self._emit_at = self._sync_at = 0.0

    def end_batch(self) -> None:
        """Ends the running batch, and with it the rounds."""
        self._ended.set()

    def last_round(self) -> None:
        """Runs all steps beside the query, as a drain does at its end; raises what `round` does."""
        with self._round:
            self.round(at_once=True)

    def finish(self) -> None:
        """Writes what is left of the history, after the query has stopped.

        Raises:
            StateError: The table cannot be written.
        """
        with self._round:
            self._emission.write_history(at_once=True)

    def _round_or_warn(self) -> None:
        try:
            with self._round:
                self.round()
        except InterruptedCallError as error:
            self._context.log.info("checkpoint_round_interrupted", text=error)
        except ClusterError as error:
            self._context.log.warning("checkpoint_round_failed", text=error)
            retry_at = time.monotonic() + min(interval for _, interval in self._steps())
            self._emit_at = retry_at
            self._sync_at = retry_at

    def _steps(self) -> list[tuple[float, int]]:
        """Returns when each enabled step is due, and its interval in s; there is at least one."""
        groups = self._context.config.groups
        emit = (self._emit_at, groups.checkpoints_interval_seconds)
        sync = (self._sync_at, groups.sync_interval_seconds)
        return [emit] * groups.checkpoints_enabled + [sync] * groups.sync_enabled

    def _refresh(self, *, at_once: bool) -> None:
        groups = self._context.config.groups
        due = groups.refresh_enabled and time.monotonic() >= self._refresh_at
        if self._groups and not due and not at_once:
            return
        names = self._source.states().keys()
        for text in group_notes(self._context.config, names):
            if text not in self._logged:
                self._logged.add(text)
                self._context.log.warning("groups_not_found", text=text)
        found = {name for name in names if groups.accepts(name)}
        known = {group for group in self._groups if groups.accepts(group)}
        if not known:  # the first time: groups that are known from an earlier process count too
            known = {group for group, _ in self._emission.newest() if groups.accepts(group)}
        unlisted = known - found
        gone = self._source.missing(unlisted) if unlisted else set()
        if new := gone - self._gone:  # reported once; an event of an earlier process counts
            self._gone |= new
            tables, flow = self._context.tables, self._flow
            read = partial(reader_of(tables).newest, "events", flow, ["kind", "group"], ["at"])
            events = tables.mended("events", flow, read)
            reported = {event["group"] for event in events if event["kind"] == "group-gone"}
            tables.record_events(flow, (_gone(flow, group) for group in sorted(new - reported)))
        self._groups = found | (unlisted - gone)
        self._refresh_at = time.monotonic() + groups.refresh_interval_seconds


def _gone(flow: Flow, group: str) -> NewEvent:
    text = (
        f"group {group} no longer exists on {flow.source}: it was deleted, or its offsets expired. "
        f"What {flow.target} has of it, as checkpoints and offsets, stays as it is"
    )
    return NewEvent("group-gone", text, "keep", {"group": group})
