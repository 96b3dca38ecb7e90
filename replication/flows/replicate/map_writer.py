"""Writes finished runs to the offset map, then MM2's offset syncs.

The offset map in Delta is the truth and is written first. The offset syncs serve MirrorMaker 2's
own tools: one that cannot be written is retried with the next ones and never stops replication.
Runs of a running query that cannot be written are kept, and written with the next ones.
"""

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyspark
from pyspark.sql import SparkSession

from replication.config.transforms import chain_text, stored_transforms
from replication.errors import ClusterError, StateError
from replication.flows.context import FlowContext
from replication.java import JVM_GONE
from replication.kafka.internal_topic import InternalTopic
from replication.mm2.wire import OffsetSync
from replication.model import Chain, Flow, Position, TopicPartition
from replication.offsets.map import TopicMap
from replication.offsets.pending import (
    Copied,
    LeftOut,
    Overdue,
    PendingRuns,
    RecordRejection,
    WaitingRuns,
)
from replication.offsets.runs import (
    UNKNOWN,
    UNSTAMPED,
    Epochs,
    FinishedRuns,
    OffsetRun,
    Stamp,
    Stamps,
    is_in_doubt,
    is_placed,
    unchanged,
)
from replication.offsets.syncs import offset_syncs
from replication.positions.measure import CopiedTo, cuts_of
from replication.positions.refine import read_over
from replication.spark.acknowledged import Acknowledged, await_silence, generation_tag, is_reported
from replication.spark.progress import QueryProgress
from replication.state.offset_table import FIRST_TOPICS, OffsetTable, first_start_of
from replication.state.table_reader import OFFSET_RUNS
from replication.state.tables import Tables, now, reader_of
from replication.topics.topic_plan import TopicPlan

# Holds the runs of a generation back until its topics are known to be the same ones afterwards.
#
# What is written to the offset map carries the topic ids that were true when the records were
# copied.


class Looks(Protocol):
    """The looks at topic ids; see `TopicIdWatch`."""

    def want(self, topics: Iterable[str]) -> int:
        """Lets *topics* be looked at; returns which look, by number, checks what they are now."""

    def is_same(self, topic: str, look: int) -> bool:
        """Returns whether *look*, by number, or a later one found upstream *topic*'s ids."""

    def look_again(self) -> int:
        """Waits for one more look at all topics, not for long; returns its number."""


@dataclass(slots=True)
class _Held:
    """What was copied until a time, and the look that checks it: one that began later."""

    look: int
    runs: dict[TopicPartition, list[OffsetRun]] = field(default_factory=dict)
    positions: dict[TopicPartition, Position] = field(default_factory=dict)


class CheckedRuns:
    """The pending runs of one generation, as far as they are of the topics that it began with."""

    def __init__(self, pending: PendingRuns, looks: Looks, spacing: int | None) -> None:
        self._pending = pending
        self._looks = looks
        self._spacing = spacing or 0
        self._held: deque[_Held] = deque()
        self._checked: dict[TopicPartition, WaitingRuns] = {}
        self._positions = pending.positions()

    def advance(self) -> None:
        """Takes what is new, and lets go of what looks have checked since."""
        self._hold()
        self._let_go()

    def finish(self) -> None:
        """Takes everything, and waits for one more look at the topics."""
        self._hold()
        look = self._looks.look_again()
        for held in self._held:
            held.look = min(held.look, look)
        self._let_go()

    def take(self) -> dict[TopicPartition, list[OffsetRun]]:
        """Takes the checked runs, merged, and forgets them."""
        checked, self._checked = self._checked, {}
        return {tp: runs.take() for tp, runs in checked.items()}

    def positions(self) -> Mapping[TopicPartition, Position]:
        """Returns each partition's position after the last record that is checked."""
        return self._positions

    def _hold(self) -> None:
        taken = self._pending.take()
        if not taken:
            return
        look = self._looks.want({tp.topic for tp in taken})  # last: it begins after what was taken
        if not self._held or self._held[-1].look != look:
            self._held.append(_Held(look))
        for tp, runs in taken.items():
            self._held[-1].runs.setdefault(tp, []).extend(runs)
            self._held[-1].positions[tp] = runs[-1].end

    def _let_go(self) -> None:
        for held in self._held:
            checked = [tp for tp in held.positions if self._looks.is_same(tp.topic, held.look)]
            for tp in checked:
                for run in held.runs.pop(tp, ()):
                    self._checked.setdefault(tp, WaitingRuns(self._spacing)).add(run)
                self._positions[tp] = held.positions.pop(tp)
        while self._held and not self._held[0].positions:
            self._held.popleft()


# Feeds a generation's pending runs with what the executors report of each acknowledged record.

UNREPORTED_BATCH_SECONDS = 60
"""The longest Real-Time batch where executors do not report."""

CONFIRM_SECONDS = 5
"""How long the reports of a finished batch's records may take; executors report twice a second."""


class Reports:
    """The reports of one generation; nothing in a session without the plugin. `close` them.

    Attributes:
        rejected: A record that the target rejected, by upstream partition.
    """

    def __init__(self, context: FlowContext, plan: TopicPlan, number: int) -> None:
        self._context = context
        self.number = number
        self._flow = context.config.flow
        self._upstream = {plan.copy_of(tp): tp for tp in plan.partitions}
        is_counted = is_reported(context.spark)
        self._acknowledged = Acknowledged(context.spark, self._flow, number) if is_counted else None
        self._overdue = Overdue(CONFIRM_SECONDS)
        self.rejected: dict[TopicPartition, RecordRejection] = {}

    @property
    def spacing(self) -> int | None:
        """Records between two borders in sparse ranges; None where executors do not report."""
        return self._context.config.offset_syncs.lag_max if self._acknowledged else None

    @property
    def batch_seconds(self) -> int:
        """How long a Real-Time batch lasts: without reports its end is what updates the map."""
        configured = self._context.config.realtime_batch_seconds
        return configured if self._acknowledged else min(configured, UNREPORTED_BATCH_SECONDS)

    def tagged(
        self, spark: SparkSession, limits: Mapping[str, int], schemas: str
    ) -> AbstractContextManager[None]:
        """Tags the query that is started in the block, as `generation_tag` does."""
        spacing = self.spacing or 0
        return generation_tag(
            spark, self._flow, self.number, spacing=spacing, limits=limits, schemas=schemas
        )

    def is_quiet(self, progress: QueryProgress) -> bool:
        """Returns whether a running query has no news; false if executors do not report."""
        reports = self._acknowledged
        return reports is not None and reports.is_quiet(progress.query, progress.newest)

    def add_to(self, pending: PendingRuns) -> None:
        """Adds what was reported since the last call."""
        if self._acknowledged is not None:
            copied: list[tuple[TopicPartition, Copied]] = []
            try:
                for remote, report in self._acknowledged.take():
                    tp = self._upstream[remote]
                    if isinstance(report, RecordRejection):
                        self.rejected[tp] = report
                    elif isinstance(report, Copied):
                        copied.append((tp, report))
                    elif isinstance(report, LeftOut):
                        pending.leave_out(tp, report)
                    else:
                        pending.add_acknowledged(tp, report)
            finally:
                self._context.metrics.add_copied(copied)

    def count(self, runs: Mapping["TopicPartition", Sequence[OffsetRun]]) -> None:
        """Puts new *runs* on the board, whether executors or batches have told of them."""
        self._context.metrics.add(runs)

    def accept_unconfirmed(self, pending: PendingRuns) -> None:
        """Takes a finished batch's own counts where its reports are overdue, and records that."""
        partitions = self._overdue.look(pending.unconfirmed(), time.monotonic())
        if partitions:
            pending.accept_batches(partitions)
            names = ", ".join(map(str, partitions))
            self._context.tables.record_event(
                self._flow,
                "unconfirmed",
                f"executors did not report all records of a finished batch on {names} within "
                f"{CONFIRM_SECONDS} s; the batch's own counts are used",
                reaction="batch",
            )

    def finish(self) -> None:
        """Waits a moment for what a stopped query has in flight, so that it is also reported."""
        if self._acknowledged is not None:
            await_silence(self._context.spark, self._flow, CONFIRM_SECONDS)

    def close(self) -> None:
        """Drops all further reports."""
        if self._acknowledged is not None:
            with suppress(*JVM_GONE):  # the JVM may be gone, and the reports with it
                self._acknowledged.close()


# Records which topics a flow replicates, and their ids on both clusters, in a table.

COLUMNS = ("topic", "remote_topic", "topic_id", "remote_id", "partitions", "transform")


class TopicRows:
    """The flow's rows of ``topics``.

    Attributes:
        remote_ids: The topic id that each remote topic had when it was last recorded.
        transforms: What the newest copies of each topic were transformed by, nothing included.
        last: The topics of the last generation before this start, by their upstream names.
    """

    def __init__(self, tables: Tables, flow: Flow) -> None:
        self._tables = tables
        self._flow = flow
        rows = reader_of(tables).newest("topics", flow, ["remote_topic"], ["at"])
        last = max((row["generation"] for row in rows), default=0)
        self._newest: set[tuple[object, ...]] = {
            tuple(row.get(column) for column in COLUMNS)  # earlier versions had fewer columns
            for row in rows
            if row["generation"] == last
        }
        self.last = frozenset(row["topic"] for row in rows if row["generation"] == last)
        self.remote_ids: dict[str, str] = {
            row["remote_topic"]: row["remote_id"] for row in rows if row.get("remote_id")
        }
        self.transforms: dict[str, Chain] = stored_transforms(rows)

    def record(self, plan: TopicPlan, generation: int) -> None:
        """Appends a row for each topic of *plan*, unless the last recorded ones are the same."""
        counts = Counter(tp.topic for tp in plan.partitions)
        newest: set[tuple[object, ...]] = {
            (
                topic,
                remote,
                plan.source_ids[topic],
                plan.remote_ids[remote],
                counts[topic],
                chain_text(chain, pyspark.__version__)
                if (chain := plan.transforms.get(topic))
                else None,
            )
            for topic, remote in plan.topics.items()
        }
        if newest == self._newest:
            return
        common = {"flow": str(self._flow), "generation": generation, "at": now()}
        rows = (
            {**common, **dict(zip(COLUMNS, row, strict=True))} for row in sorted(newest, key=str)
        )
        self._tables.append("topics", rows)
        self._newest = newest
        self.remote_ids.update(plan.remote_ids)
        self.transforms.update((name, plan.transforms.get(name, ())) for name in plan.topics)


# Looks at leaders' epochs whenever the offset map is written, so that it has them.
#
# A record is in the log of a leader that was the same before it was copied and afterwards. Where
# the leader has changed in between, brokers are asked whether its log is still the one that was
# copied. Of what was copied since the last write nobody knows which leader had it. There the first
# record that is a later leader's is compared with its copy.

Runs = Mapping[TopicPartition, Sequence[OffsetRun]]

ANSWER_SECONDS: Final = 4.0
"""How long a look waits: the loop stands meanwhile, and the next write looks again."""


class LeaderLooks:
    """What is known of the leaders of one flow's partitions.

    Attributes:
        stamps: Under which leaders the logs had all that was copied up to a position.
        cut: Partitions that have lost records while a query ran: its next start refuses them.
    """

    def __init__(self, context: FlowContext, stamps: Mapping[TopicPartition, Stamps]) -> None:
        self._context = context
        self._now: dict[TopicPartition, Epochs] = {}
        self.stamps = dict(stamps)
        self.cut = frozenset[TopicPartition]()

    def begin(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        now: Mapping[TopicPartition, Epochs],
    ) -> None:
        """Takes what a start has found: the logs of leaders of *now* have all up to *positions*."""
        self.cut -= set(plan.partitions)  # what still is refused is not among the positions
        for tp, at in positions.items():
            self._now[tp] = now.get(tp, UNKNOWN)
            self.stamps[tp] = UNSTAMPED.renewed(at, self._now[tp])

    def source_epochs(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the epochs of the source's leaders that had everything before *starts*."""
        stamps = {tp: self.stamps.get(tp, UNSTAMPED).source for tp in starts}
        return {
            tp: stamp.epoch
            for tp, stamp in stamps.items()
            if stamp is not None and stamp.until == starts[tp]
        }

    def look(self, plan: TopicPlan, runs: Runs) -> tuple[Runs, dict[TopicPartition, Epochs]]:
        """Returns what of *runs* the map is to have, and which leaders have it, where known.

        Of what was cut, the map stays as it was before: a start must find the same after a crash.
        """
        known = self._known(plan, {tp: each[-1].end for tp, each in runs.items() if each})
        runs = {tp: each for tp, each in runs.items() if tp not in self.cut}
        doubts = {
            tp: Stamp(runs[tp][-1].src_until, stamp.epoch)
            for tp in known
            if (stamp := self.stamps.get(tp, UNSTAMPED).source)
            and is_in_doubt(stamp, self._now[tp].source)
        }
        over = read_over(self._context, plan, runs, doubts) if doubts else {}
        for tp, until in over.items():
            # the earlier leader had the last of these, and today's log parts from its before
            runs[tp], known[tp] = until, known[tp]._replace(source=doubts[tp].epoch)
        self._note_cut(over)
        for tp, epochs in known.items():
            self.stamps[tp] = self.stamps.get(tp, UNSTAMPED).renewed(runs[tp][-1].end, epochs)
        return runs, known

    def _known(
        self, plan: TopicPlan, copied: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, Epochs]:
        """Returns the epochs of leaders whose logs have all that was *copied*, where known."""
        if not copied or not self._context.outages.are_answering:
            return {}
        clients = self._context.source, self._context.target
        try:
            source, target = (
                side.leader_epochs(names, ANSWER_SECONDS)
                for side, names in zip(
                    clients, (list(copied), [plan.copy_of(tp) for tp in copied]), strict=True
                )
            )
        except ClusterError as error:
            self._context.log.info("leader_epochs_unknown", text=error)
            return {}
        found = {tp: Epochs(source.get(tp), target.get(plan.copy_of(tp))) for tp in copied}
        self._note_cut(self._cut(plan, found))
        known = {
            tp: unchanged(self._now.get(tp, UNKNOWN), now)
            for tp, now in found.items()
            if tp not in self.cut
        }
        self._now |= found
        return known

    def _note_cut(self, partitions: Collection[TopicPartition]) -> None:
        self.cut |= set(partitions)
        if partitions:
            self._context.log.warning("logs_cut", text=", ".join(map(str, sorted(partitions))))

    def _cut(self, plan: TopicPlan, now: Mapping[TopicPartition, Epochs]) -> set[TopicPartition]:
        """Returns the partitions that have lost records, by leaders that are new *now*."""
        config, found = self._context.config, set[TopicPartition]()
        clients = (
            (config.source.consumer, {tp: tp for tp in now}),
            (config.target.consumer, {tp: plan.copy_of(tp) for tp in now}),
        )
        for side, (consumer, names) in enumerate(clients):
            stamps = ((tp, self.stamps.get(tp, UNSTAMPED)[side]) for tp in now)
            copied = {tp: CopiedTo(names[tp], stamp.until, stamp) for tp, stamp in stamps if stamp}
            cuts, _ = cuts_of(consumer, copied, {tp: epochs[side] for tp, epochs in now.items()})
            found |= cuts.keys()
        return found


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
    """

    def __init__(self, context: FlowContext) -> None:
        config = context.config
        self.flow = config.flow
        self._live_map = context.live_map
        self._live_map.attach()
        self._context = context
        self._tables = context.tables
        self._metrics = context.metrics
        self._table = OffsetTable(context.tables, config.flow)
        stored = reader_of(context.tables).offsets(self.flow).progress()
        self._table.resume(stored)
        self.last_generation = stored.last_generation
        self.anchors = stored.anchors
        self._metrics.place(self.next_offsets)
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
        """Replaces the maps of the partitions of *finished*, in memory and in the table."""
        if finished.runs:
            self._write_kept()
            self.forget(finished.runs.keys())
            self._table.replace(finished)
            self.record(finished.runs, finished.topic_ids)

    def write(self, finished: FinishedRuns) -> None:
        """Writes the runs after those that were kept, then the offset syncs that follow."""
        self._write_kept()
        self._append(finished)

    def write_or_keep(self, finished: FinishedRuns) -> None:
        """Writes as `write` does, but keeps runs that cannot be written for the next call."""
        if finished.runs:
            self._unwritten.append(finished)
        else:
            self._syncs.rest()
        try:
            # A write finds by itself that its table is gone; a look at a remote one is billed.
            if not self._unwritten and self._tables.state_folder is not None:
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
        self._metrics.map_written()
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
