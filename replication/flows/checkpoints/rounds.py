"""Checkpoint rounds: translate committed offsets, emit checkpoints, move idle groups.

A round lists the groups, reads and translates their committed offsets, emits a checkpoint for each
translation that changed, and commits the offsets of groups that are idle on the target.
"""

import time
from collections.abc import Iterable
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.flows.checkpoints.group_sync import GroupSync
from replication.flows.checkpoints.translate import group_positions
from replication.flows.context import FlowContext
from replication.groups.positions import GroupPartition, GroupPosition, is_rewound, should_emit
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.kafka.internal_topic import InternalTopic
from replication.kafka.reader import Record
from replication.log import Log
from replication.mm2.wire import Checkpoint, WireError
from replication.offsets.map import Exact, NoAnswer
from replication.spark.frames import trigger_stream
from replication.state.tables import now

log = Log(__name__)


class Checkpoints:
    """The checkpoint rounds of one flow, and what one round remembers for the next.

    Args:
        context: The flow.
        target_groups: The groups on the target; by default a client of the flow's own.
    """

    def __init__(self, context: FlowContext, target_groups: Groups | None = None) -> None:
        config = context.config
        self._context, self._config = context, context.config
        self._topic = checkpoints_topic(context.target, config)
        self._sync = GroupSync(context, target_groups) if config.groups.sync_enabled else None
        self._previous: dict[GroupPartition, Checkpoint] | None = None
        self._groups: set[str] = set()
        self._refresh_at = self._emit_at = self._sync_at = 0.0
        self._untranslated: set[GroupPartition] = set()

    @cached_property
    def _source(self) -> Groups:
        """Created lazily, so that a failing client cannot stop replication."""
        flow = self._config.flow
        return Groups(self._context.jvm, flow.source, self._config.source.admin)

    def round(self, *, at_once: bool = False) -> None:
        """Runs the due steps; all of them if *at_once*.

        Raises:
            ClusterError: A cluster does not answer; the next round catches up.
            StateError: The tables cannot be read or written.
        """
        self._refresh(at_once=at_once)
        groups, clock = self._config.groups, time.monotonic()
        emit = groups.checkpoints_enabled and (at_once or clock >= self._emit_at)
        sync = self._sync is not None and (at_once or clock >= self._sync_at)
        if not emit and not sync:
            return
        positions = group_positions(self._context, self._source, self._groups)
        previous = self._read_previous()
        if self._sync is not None:
            self._sync.rewound |= {
                found.key for found in positions if is_rewound(found, previous.get(found.key))
            }
        early = self._round_seconds / 2  # Spark may start a round a moment early
        if emit:
            self._emit(positions, previous)
            self._emit_at = clock + groups.checkpoints_interval_seconds - early
        if self._sync is not None and sync:
            self._sync.move(positions)
            self._sync_at = clock + groups.sync_interval_seconds - early

    def query(self) -> DataStreamWriter:
        """The streaming query that runs a round at the shorter of the two intervals."""
        self._previous = None  # another process may have emitted while this one was standby

        def run_round(_rows: DataFrame, _batch: int) -> None:
            try:
                self.round()
            except ClusterError as error:
                log.warning("checkpoint_round_failed", flow=self._config.flow, text=error)

        rows = trigger_stream(self._context.tables.spark)
        return rows.writeStream.foreachBatch(run_round).trigger(
            processingTime=f"{self._round_seconds} seconds"
        )

    @property
    def _round_seconds(self) -> int:
        groups = self._config.groups
        return min(
            [groups.checkpoints_interval_seconds] * groups.checkpoints_enabled
            + [groups.sync_interval_seconds] * groups.sync_enabled
        )

    def _refresh(self, *, at_once: bool) -> None:
        """Lists the groups again, if that is due."""
        groups = self._config.groups
        due = groups.refresh_enabled and time.monotonic() >= self._refresh_at
        if self._groups and not due and not at_once:
            return
        found = {name for name in self._source.states() if groups.accepts(name)}
        self._report_gone(self._groups - found)
        self._groups = found
        self._refresh_at = time.monotonic() + groups.refresh_interval_seconds

    def _report_gone(self, gone: set[str]) -> None:
        """Records an event for each group that is gone, unless the table has one already."""
        if not gone:
            return
        tables = self._context.tables
        recorded = (
            tables.of("events", self._config.flow).where("kind = 'group-gone'").select("group")
        )
        for group in sorted(gone - {row["group"] for row in tables.collect(recorded, "events")}):
            tables.record_event(
                self._config.flow,
                "group-gone",
                f"group {group} no longer exists on {self._config.flow.source}: it was deleted, or "
                f"its offsets expired. Its checkpoints and its offsets on "
                f"{self._config.flow.target} are not changed",
                group=group,
                policy="keep",
            )

    def _read_previous(self) -> dict[GroupPartition, Checkpoint]:
        """The newest checkpoint of each group partition; read from the topic the first time."""
        if self._previous is None:
            if self._config.groups.checkpoints_enabled:
                self._topic.create()
            self._previous = read_checkpoints(self._topic)
            # also reports groups that disappeared before this process started
            known = {group for group, _ in self._previous}
            self._report_gone(set(filter(self._config.groups.accepts, known)) - self._groups)
        return self._previous

    def _emit(
        self, positions: Iterable[GroupPosition], previous: dict[GroupPartition, Checkpoint]
    ) -> None:
        changed = []
        for position in positions:
            if should_emit(position, previous.get(position.key)):
                changed.append(position)
            else:
                self._log_missing(position)
        if not changed:
            return
        checkpoints = [position.checkpoint() for position in changed]
        self._topic.write((checkpoint.key(), checkpoint.value()) for checkpoint in checkpoints)
        keys = (position.key for position in changed)
        previous.update(zip(keys, checkpoints, strict=True))
        self._context.tables.append("checkpoints", (self._row(position) for position in changed))
        log.info("checkpoints_emitted", flow=self._config.flow, checkpoints=len(changed))

    def _log_missing(self, position: GroupPosition) -> None:
        """Logs once why a group has no checkpoint for a partition."""
        answer = position.answer
        if isinstance(answer, NoAnswer) and position.key not in self._untranslated:
            self._untranslated.add(position.key)
            log.warning(
                "no_checkpoint", flow=self._config.flow, group=position.group,
                partition=position.upstream, offset=position.committed.offset,
                first_translatable=answer.first, text=answer.reason,
            )  # fmt: skip

    def _row(self, position: GroupPosition) -> dict[str, object]:
        return {
            "flow": str(self._config.flow),
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


def checkpoints_topic(target: Cluster, config: FlowConfig) -> InternalTopic:
    """The topic of the flow's checkpoints, always on the target."""
    return InternalTopic(
        target,
        config.policy.checkpoints_topic(config.flow.source),
        producer=config.target.producer,
        consumer=config.target.consumer,
        replication_factor=config.groups.replication_factor,
    )


def read_checkpoints(topic: InternalTopic) -> dict[GroupPartition, Checkpoint]:
    """The newest checkpoint of each group and remote partition.

    Records that are not checkpoints are skipped, as MirrorMaker 2's reader does.
    """
    newest: dict[GroupPartition, Checkpoint] = {}
    for record in topic.records():
        if checkpoint := _decode(topic, record):
            newest[checkpoint.group, checkpoint.partition] = checkpoint
    return newest


def _decode(topic: InternalTopic, record: Record) -> Checkpoint | None:
    try:
        return Checkpoint.decode(record.key, record.value)
    except WireError as error:
        log.warning("not_a_checkpoint", topic=topic.name, offset=record.offset, text=error)
        return None
