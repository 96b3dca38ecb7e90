"""The checkpoint loop: translate the groups' committed offsets, emit checkpoints, sync groups.

A round reads what the groups have committed, translates it with the offset map, emits a checkpoint
where the translation changed, and commits it for groups that are idle on the target. It runs no
Spark job: the map is in memory, or is read without Spark, and the tables are written behind.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property, partial
from threading import Event, Lock

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.steering import Steering
from replication.errors import ClusterError
from replication.flows.checkpoints.emit import Emission
from replication.flows.checkpoints.group_sync import GroupSync
from replication.flows.checkpoints.live_maps import live_maps
from replication.flows.checkpoints.rejected_groups import RejectedGroups
from replication.flows.context import FlowContext
from replication.flows.replicate.reports import UNREPORTED_BATCH_SECONDS
from replication.groups.first_sight import FirstSight
from replication.groups.positions import GroupPosition, is_rewound
from replication.kafka.consumer_groups import Groups
from replication.kafka.diagnosis import InterruptedCallError
from replication.model import Committed, Flow, NewEvent, TopicPartition
from replication.spark.frames import trigger_stream
from replication.state.spark_reader import reader_of
from replication.topics.list_notes import group_notes
from replication.upkeep.groups import Translator

BATCH_SECONDS = 60.0
"""A batch of the query costs about 80 ms of CPU, so one batch holds the rounds of a minute."""

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
        self._first_sight = FirstSight(STALLED_SECONDS)
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
        translated = self._translator.translate(self._context.config, self._committed())
        newest = self._emission.newest()
        positions = translated.positions
        committed = defaultdict[TopicPartition, set[int]](set)
        for position in positions:
            committed[position.upstream].add(position.committed.offset)
        self._context.live_map.want_borders(committed)
        self._emission.saw(positions)
        self._context.board.end_round([*positions, *translated.untranslated])
        is_held = bool(self._context.steering.held)
        if self._sync is not None and not is_held:
            self._sync.rewound |= {p.key for p in positions if is_rewound(p, newest.get(p.key))}
        if not at_once:
            positions = self._first_sight.ready(positions, translated.replicated_until, clock)
        errors: list[ClusterError] = []
        try:
            if emit:
                errors += [] if is_held else self._emit(positions)
                self._emit_at = clock + groups.checkpoints_interval_seconds
            if self._sync is not None and sync:
                errors += [] if is_held else self._move(self._sync, positions)
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

    def _emit(self, positions: Iterable[GroupPosition]) -> list[ClusterError]:
        """Emits checkpoints; returns the error if the topic cannot be written."""
        try:
            self._emission.emit(positions)
        except ClusterError as error:
            return [error]
        return []

    def _move(self, sync: GroupSync, positions: Iterable[GroupPosition]) -> list[ClusterError]:
        """Moves the groups on the target; returns the error of one that may move later."""
        # of a shared topic, another source's groups of that name would lose their place
        shares = self._context.config.shares
        error = sync.move(position for position in positions if not shares(position.remote.topic))
        return [error] if error else []

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

    def _wait(self, ended: Event, until: float, steering: Steering) -> None:
        """Waits for the next step, or until operators have changed the flow since *steering*."""
        while self._context.steering is steering:
            left = until - time.monotonic()
            if left <= 0 or ended.wait(min(left, CHANGES_SECONDS)):
                return
        self._refresh_at = self._emit_at = self._sync_at = 0.0

    def end_batch(self) -> None:
        """Ends the running batch, and with it the rounds."""
        self._ended.set()

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
        """Lists the groups again when that is due."""
        groups = self._context.config.groups
        due = groups.refresh_enabled and time.monotonic() >= self._refresh_at
        if self._groups and not due and not at_once:
            return
        names = self._source.states().keys()
        self._report_unmatched(names)
        found = {name for name in names if groups.accepts(name)}
        known = {group for group in self._groups if groups.accepts(group)}
        if not known:  # the first time: groups that are known from an earlier process count too
            known = {group for group, _ in self._emission.newest() if groups.accepts(group)}
        unlisted = known - found
        gone = self._source.missing(unlisted) if unlisted else set()
        self._report_gone(gone)
        self._groups = found | (unlisted - gone)
        self._refresh_at = time.monotonic() + groups.refresh_interval_seconds

    def _report_unmatched(self, names: Collection[str]) -> None:
        """Logs each item of the lists of groups that has no effect, once."""
        for text in group_notes(self._context.config, names):
            if text not in self._logged:
                self._logged.add(text)
                self._context.log.warning("groups_not_found", text=text)

    def _report_gone(self, gone: set[str]) -> None:
        """Reports each deleted group once; an event of an earlier process counts."""
        gone = gone - self._gone
        if not gone:
            return
        self._gone |= gone
        tables, flow = self._context.tables, self._flow
        read = partial(reader_of(tables).newest, "events", flow, ["kind", "group"], ["at"])
        events = tables.mended("events", flow, read)
        known = {event["group"] for event in events if event["kind"] == "group-gone"}
        tables.record_events(flow, (_gone(flow, group) for group in sorted(gone - known)))


def _gone(flow: Flow, group: str) -> NewEvent:
    text = (
        f"group {group} no longer exists on {flow.source}: it was deleted, or its offsets expired. "
        f"What {flow.target} has of it, as checkpoints and offsets, stays as it is"
    )
    return NewEvent("group-gone", text, "keep", {"group": group})
