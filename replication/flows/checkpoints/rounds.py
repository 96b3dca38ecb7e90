"""Translate the groups' committed offsets, emit checkpoints, move idle groups on the target.

A round: which groups, what they have committed, what that is on the target by the offset map, a
checkpoint for what is news (mm2.md, 7.3), a commit for groups that sleep on the target (7.4).
"""

import logging
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
from replication.mm2.wire import Checkpoint, WireError
from replication.offsets.map import Exact, NoAnswer
from replication.spark.frames import trigger_stream
from replication.state.tables import now

log = logging.getLogger(__name__)


class Checkpoints:
    """One flow's rounds, and what one remembers for the next.

    Args:
        context: Of the flow.
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
        self._silent: set[GroupPartition] = set()

    @cached_property
    def _source(self) -> Groups:
        """Made on first use: a client that cannot be made must not end the flow beside it."""
        flow = self._config.flow
        return Groups(self._context.jvm, flow.source, self._config.source.admin)

    def round(self, *, at_once: bool = False) -> None:
        """Does what is due by now; everything if *at_once*.

        Raises:
            ClusterError: A cluster does not answer: nothing is lost, the next round does it.
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
                it.key for it in positions if is_rewound(it, previous.get(it.key))
            }
        early = self._tick_seconds / 2  # a tick that comes a moment early counts
        if emit:
            self._emit(positions, previous)
            self._emit_at = clock + groups.checkpoints_interval_seconds - early
        if self._sync is not None and sync:
            self._sync.move(positions)
            self._sync_at = clock + groups.sync_interval_seconds - early

    def query(self) -> DataStreamWriter:
        """The streaming query that calls `round`, as often as the shorter interval demands."""
        self._previous = None  # while this stood by, another process may have emitted

        def tick(_rows: DataFrame, _batch: int) -> None:
            try:
                self.round()
            except ClusterError as error:
                log.warning("flow=%s no checkpoints this time: %s", self._config.flow, error)

        rows = trigger_stream(self._context.tables.spark)
        return rows.writeStream.foreachBatch(tick).trigger(
            processingTime=f"{self._tick_seconds} seconds"
        )

    @property
    def _tick_seconds(self) -> int:
        groups = self._config.groups
        return min(
            [groups.checkpoints_interval_seconds] * groups.checkpoints_enabled
            + [groups.sync_interval_seconds] * groups.sync_enabled
        )

    def _refresh(self, *, at_once: bool) -> None:
        """Looks which groups there are, when it is time."""
        groups = self._config.groups
        due = groups.refresh_enabled and time.monotonic() >= self._refresh_at
        if self._groups and not due and not at_once:
            return
        found = {name for name in self._source.states() if groups.accepts(name)}
        self._report_gone(self._groups - found)
        self._groups = found
        self._refresh_at = time.monotonic() + groups.refresh_interval_seconds

    def _report_gone(self, gone: set[str]) -> None:
        """Once for each group: an event of an earlier process counts."""
        if not gone:
            return
        tables = self._context.tables
        said = tables.of("events", self._config.flow).where("kind = 'group-gone'").select("group")
        for group in sorted(gone - {row["group"] for row in tables.collect(said, "events")}):
            tables.record_event(
                self._config.flow,
                "group-gone",
                f"group {group} no longer exists on {self._config.flow.source}: it was deleted, or "
                f"its offsets expired. Its checkpoints and its offsets on "
                f"{self._config.flow.target} stay as they are",
                group=group,
                policy="keep",
            )

    def _read_previous(self) -> dict[GroupPartition, Checkpoint]:
        """The newest checkpoint of each key, from the topic at first: whoever wrote it."""
        if self._previous is None:
            if self._config.groups.checkpoints_enabled:
                self._topic.create()
            self._previous = read_checkpoints(self._topic)
            # groups that were known before this process and are gone now are reported, too
            known = {group for group, _ in self._previous}
            self._report_gone(set(filter(self._config.groups.accepts, known)) - self._groups)
        return self._previous

    def _emit(
        self, positions: Iterable[GroupPosition], previous: dict[GroupPartition, Checkpoint]
    ) -> None:
        news = []
        for it in positions:
            if should_emit(it, previous.get(it.key)):
                news.append(it)
            elif isinstance(it.answer, NoAnswer) and it.key not in self._silent:
                self._silent.add(it.key)
                log.warning(
                    "flow=%s group=%s has no checkpoint for %s at %d: %s, answers start at %s",
                    self._config.flow, it.group, it.upstream, it.committed.offset,
                    it.answer.reason, it.answer.first,
                )  # fmt: skip
        if not news:
            return
        checkpoints = [it.checkpoint() for it in news]
        self._topic.write((it.key(), it.value()) for it in checkpoints)
        previous.update({it.key: one for it, one in zip(news, checkpoints, strict=True)})
        self._context.tables.append("checkpoints", (self._row(it) for it in news))
        log.info("flow=%s emitted checkpoints=%d", self._config.flow, len(news))

    def _row(self, it: GroupPosition) -> dict[str, object]:
        return {
            "flow": str(self._config.flow),
            "group": it.group,
            "topic": it.upstream.topic,
            "partition": it.upstream.partition,
            "remote_topic": it.remote.topic,
            "upstream": it.committed.offset,
            "downstream": it.downstream,
            "exact": isinstance(it.answer, Exact),
            "reread": it.reread,
            "metadata": it.committed.metadata,
            "at": now(),
        }


def checkpoints_topic(target: Cluster, config: FlowConfig) -> InternalTopic:
    """Where the flow's checkpoints are: on the target (mm2.md, 2.5)."""
    return InternalTopic(
        target,
        config.policy.checkpoints_topic(config.flow.source),
        producer=config.target.producer,
        consumer=config.target.consumer,
        replication_factor=config.groups.replication_factor,
    )


def read_checkpoints(topic: InternalTopic) -> dict[GroupPartition, Checkpoint]:
    """The newest checkpoint of each group and remote partition.

    Records that are none are passed over, as MirrorMaker 2's reader does.
    """
    newest: dict[GroupPartition, Checkpoint] = {}
    for record in topic.records():
        if checkpoint := _decoded(topic, record):
            newest[checkpoint.group, checkpoint.partition] = checkpoint
    return newest


def _decoded(topic: InternalTopic, record: Record) -> Checkpoint | None:
    try:
        return Checkpoint.decode(record.key, record.value)
    except WireError as error:
        log.warning("%s offset %d is no checkpoint: %s", topic.name, record.offset, error)
        return None
