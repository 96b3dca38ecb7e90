"""Writes finished runs to the offset map, then MM2's offset syncs.

The offset map in Delta is the truth and is written first. The offset syncs serve MirrorMaker 2's
own tools: one that cannot be written is retried with the next ones and never stops replication.
Runs of a running query that cannot be written are kept, and written with the next ones.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from replication.errors import ClusterError, StateError
from replication.flows.context import FlowContext
from replication.flows.replicate.leader_looks import LeaderLooks
from replication.flows.replicate.topic_rows import TopicRows
from replication.kafka.internal_topic import InternalTopic
from replication.mm2.wire import OffsetSync
from replication.model import Chain, TopicPartition
from replication.offsets.epochs import Stamps
from replication.offsets.live_map import TopicMap
from replication.offsets.pending import RecordRejection
from replication.offsets.runs import FinishedRuns, OffsetRun, is_placed
from replication.offsets.syncs import offset_syncs
from replication.state.first_topics import FIRST_TOPICS, first_start_of
from replication.state.offset_rows import OFFSET_RUNS
from replication.state.offset_table import OffsetTable
from replication.state.spark_reader import reader_of

KEEP_SECONDS = 60.0
"""How long writes may fail while queries run. Nothing is lost."""


class MapWriter:
    """Writes one flow's offset map and offset syncs.

    Attributes:
        interval_seconds: Between two writes of what a running query has finished. A write costs
            half a CPU second; after a crash what followed the last one has to be counted.
        anchors: Each partition's last known position; the replication loop updates it.
        leaders: What is known of the leaders of both sides' partitions.
        topics: The topics of the last generation, with their ids.
        placed: Partitions that were given a position on a target with records, and have copied
            nothing since: the target may have rejected the next record.
        rejected: Records that the target has rejected since the last generation started.
        first: What existed on the source when the flow first started; None if it has not yet.

    Raises:
        StateError: The offset map cannot be read; `write` raises it as well.
    """

    def __init__(self, context: FlowContext) -> None:
        config = context.config
        self.flow = config.flow
        self._live_map = context.live_map
        self._live_map.attach()
        self._context = context
        self._tables = context.tables
        self._board = context.board
        self._table = OffsetTable(context.tables, config.flow)
        stored = reader_of(context.tables).offsets(self.flow).progress()
        self._table.resume(stored)
        self.last_generation = stored.last_generation
        self.anchors = stored.anchors
        self.leaders = LeaderLooks(context, stored.stamps)
        self.placed = set(stored.placed)
        self.rejected = dict[TopicPartition, RecordRejection]()
        self.topics = TopicRows(context.tables, config.flow)
        rows = reader_of(context.tables).rows(FIRST_TOPICS, config.flow)
        self.first = first_start_of(rows, has_started=bool(stored.anchors))
        self._syncs = Syncs(context, stored.replicated_until)
        self._unwritten: deque[FinishedRuns] = deque()
        self._failing_since: float | None = None

    @property
    def interval_seconds(self) -> int:
        """Between two writes of the map."""
        return self._context.config.state.write_interval_seconds

    @property
    def stamps(self) -> Mapping[TopicPartition, Stamps]:
        """Under which leaders of both sides the partitions were copied, as far as is known."""
        return self.leaders.stamps

    @property
    def remote_ids(self) -> Mapping[str, str]:
        """The topic id of each remote topic in the last generation."""
        return self.topics.remote_ids

    @property
    def transforms(self) -> Mapping[str, Chain]:
        """What the newest copies of each topic were transformed by."""
        return self.topics.transforms

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """Each partition's next source offset, by its last known position."""
        return {tp: anchor.position.upstream for tp, anchor in self.anchors.items()}

    def record(
        self,
        runs: Mapping[TopicPartition, Sequence[OffsetRun]],
        topic_ids: Mapping[str, str],
        mirror_syncs: Mapping[TopicPartition, Sequence[int]] | None = None,
    ) -> None:
        """Adds finished *runs* to the map in memory, so that groups are translated by them."""
        for tp, finished in runs.items():
            if finished and is_placed(finished[-1]):
                self.placed.add(tp)
            elif finished:
                self.placed.discard(tp)
        self._live_map.add(runs, topic_ids, mirror_syncs)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forgets the map in memory: the remote partitions no longer hold its records."""
        self._live_map.forget(partitions)
        self._syncs.forget(partitions)

    def delete(self, partitions: Collection[TopicPartition], *, before_generation: int) -> None:
        """Deletes the rows that earlier generations wrote about *partitions*."""
        self._table.delete(partitions, before_generation)

    def runs(self, tp: TopicPartition) -> Sequence[OffsetRun]:
        """Returns the stored map of one partition, merged, for the newest topic id."""
        return reader_of(self._tables).offsets(self.flow).runs(tp)

    def maps(self, least: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TopicMap]:
        """Returns the stored maps as far as they concern offsets *least* and later."""
        return reader_of(self._tables).offsets(self.flow).maps(least)

    def replace(self, finished: FinishedRuns) -> None:
        """Replaces the maps of the partitions of *finished*, in memory and in the table.

        Raises:
            StateError: The offset map cannot be written.
        """
        if finished.runs:
            self._write_kept()
            self.forget(finished.runs.keys())
            self._table.replace(finished)
            self.record(finished.runs, finished.topic_ids)

    def write(self, finished: FinishedRuns) -> None:
        """Writes the runs after those that were kept, then the offset syncs that follow.

        Raises:
            StateError: The offset map cannot be written. What was kept is still kept.
        """
        self._write_kept()
        self._append(finished)

    def write_or_keep(self, finished: FinishedRuns) -> None:
        """Writes as `write` does, but keeps runs that cannot be written for the next call.

        Raises:
            StateError: Writes have failed for a minute; the runs are kept all the same.
        """
        if finished.runs:
            self._unwritten.append(finished)
        else:
            self._syncs.rest()
        try:
            if self._tables.state_folder is not None:  # a look at a remote one is billed
                self._tables.exists(OFFSET_RUNS)
            self._table.want(self._live_map.take_borders())
            self._write_kept()
            self._table.append_borders()
        except StateError as error:
            clock = time.monotonic()
            self._failing_since = self._failing_since or clock
            seconds = clock - self._failing_since
            if seconds >= KEEP_SECONDS:
                raise
            self._context.log.warning("map_write_failed", seconds=round(seconds), text=error)

    def _write_kept(self) -> None:
        while self._unwritten:
            self._append(self._unwritten[0])
            self._unwritten.popleft()
        self._failing_since = None

    def _append(self, finished: FinishedRuns) -> None:
        self._table.append(finished)
        self._board.map_written()
        self._syncs.write(finished.runs)


class Syncs:
    """Writes the offset syncs of a flow, if they are enabled."""

    def __init__(
        self, context: FlowContext, replicated_until: Mapping[TopicPartition, int]
    ) -> None:
        self._context = context
        self._until = dict(replicated_until)
        self._unsent: dict[TopicPartition, list[OffsetSync]] = {}
        self._topic: InternalTopic | None = None
        if context.config.offset_syncs.enabled:
            self._topic = offset_syncs_topic(context)

    def write(self, runs: Mapping[TopicPartition, Sequence[OffsetRun]]) -> None:
        """Writes the syncs of *runs*; logs a warning if the cluster rejects them."""
        if self._topic is None:
            return
        for tp, finished in runs.items():
            self._unsent[tp] = [*self._unsent.get(tp, ()), *self._syncs_of(tp, finished)]
        pending = [sync for syncs in self._unsent.values() for sync in syncs]
        if not pending:
            return
        try:
            self._topic.create()
            self._topic.write((sync.key(), sync.value()) for sync in pending)
        except ClusterError as error:
            self._context.log.warning("offset_syncs_delayed", text=error)
            # only the newest sync of a partition matters; the others would pile up
            self._unsent = {tp: syncs[-1:] for tp, syncs in self._unsent.items()}
        else:
            self._unsent = {}

    def rest(self) -> None:
        """Ends the connection of a flow that has copied nothing for a while."""
        if self._topic is not None and not self._unsent:
            self._topic.disconnect()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Lets the syncs of *partitions* begin again."""
        for tp in partitions:
            self._until.pop(tp, None)
            self._unsent.pop(tp, None)

    def _syncs_of(self, tp: TopicPartition, runs: Sequence[OffsetRun]) -> list[OffsetSync]:
        until = self._until.get(tp, 0)
        self._until[tp] = max([until, *(run.src_until for run in runs)])
        lag_max = self._context.config.offset_syncs.lag_max
        return offset_syncs(tp, runs, lag_max=lag_max, replicated_until=until)


def offset_syncs_topic(context: FlowContext) -> InternalTopic:
    """Returns the flow's offset-syncs topic, at the cluster of ``offset-syncs.topic.location``.

    As in MirrorMaker 2, its name carries the alias of the flow's other cluster.
    """
    config = context.config
    if config.offset_syncs.location == "source":
        cluster, holder, other = context.source, config.source, config.target
    else:
        cluster, holder, other = context.target, config.target, config.source
    return InternalTopic(
        cluster,
        config.policy.offset_syncs_topic(other.alias),
        producer=holder.producer,
        consumer=holder.consumer,
        replication_factor=config.offset_syncs.replication_factor,
    )
