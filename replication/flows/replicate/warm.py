"""Keeps a standby warm: what a takeover needs is loaded, connected and known before it.

While another process has the flow, this one does what a start does and nobody else sees: it reads
the tables, lists and describes the topics of both clusters, asks where the logs end, and runs the
flow's query over no records. What must be true when the flow starts (positions, settings, what is
in flight) is read again with the lease: here it only loads classes and opens connections.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import spark_errors
from replication.flows.replicate.generation import QuerySetup, replication_query, start_query
from replication.kafka.cluster import Cluster
from replication.model import TopicPartition
from replication.positions.flow_clients import sharing
from replication.positions.measure import abandon_in_flight
from replication.positions.originals import Copies, Originals
from replication.spark.counting import RecordSpan, offsets_after, read_windows
from replication.spark.mode import Reading, choose_source
from replication.spark.session import checkpoint_location, driver_obstacle, temporary_folder
from replication.state.lease import Late, Lease, LeaseLostError
from replication.state.tables import reader_of
from replication.topics.topic_plan import TopicPlan, copy_rule
from replication.upkeep.prepare import look

# Does once for nothing what a start after a crash does, so that the first start is not the first.
#
# Its queries load some thousand classes of Spark and of Kafka's clients, and compile their plans.
# The rehearsal counts and compares the newest record of one partition, and runs the flow's query
# from where the source ends; what comes meanwhile goes nowhere.

RunHistory = dict[TopicPartition, int]


def rehearse(context: FlowContext, plan: TopicPlan, ends: RunHistory) -> None:
    """Rehearses the start of *context* for one partition of *plan*, one with records if it has."""
    remote_ends = context.target.log_ends(plan.copies.values())
    filled = _filled(context.source, ends)
    remote_filled = _filled(context.target, remote_ends)
    copied = [tp for tp in plan.partitions if tp in filled and plan.copy_of(tp) in remote_filled]
    part = plan.only((copied or list(plan.partitions))[:1])
    with spark_errors(context.config.flow):
        for tp in copied[:1]:
            _count(context, part, tp, ends[tp], remote_ends[plan.copy_of(tp)])
        _copy(context, part, {tp: ends[tp] for tp in part.partitions if tp in ends})


def _filled(cluster: Cluster, ends: RunHistory) -> set[TopicPartition]:
    begins = cluster.earliest(ends)
    return {tp for tp, end in ends.items() if tp in begins and begins[tp] < end}


def _count(
    context: FlowContext, part: TopicPlan, tp: TopicPartition, end: int, remote_end: int
) -> None:
    """Counts the newest record on the source by Spark, and reads it on both sides."""
    rule = copy_rule(context.config, part.topics)
    consumer = context.config.source.consumer
    read = partial(read_windows, context.spark, consumer, sharing=sharing(context))
    offsets_after(read, {tp: RecordSpan(end - 1, 1)}, {tp: end}, rule)
    with Originals(context, rule) as source, Copies(context, rule, "read_uncommitted") as target:
        source.visit({tp: (end - 1, end)}, lambda _tp, _one: None)
        target.visit({part.copy_of(tp): (remote_end - 1, remote_end)}, lambda _tp, _one: None)


def _copy(context: FlowContext, part: TopicPlan, starts: RunHistory) -> None:
    """Runs the flow's query from *starts* on, and writes nothing."""
    config, spark = context.config, context.spark
    source = choose_source(config.record_source, driver_obstacle()).source
    setup = QuerySetup(f"{config.flow.slug} rehearsal", Reading("drain", source, 1), {})
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=temporary_folder(spark)))
    try:
        writer = replication_query(spark, config, part, starts, setup).format("noop")
        location = checkpoint_location(spark, folder)
        if starts:
            start_query(writer, "drain", 0, location).awaitTermination()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


POLL_SECONDS: Final = 0.5
REFRESH_SECONDS: Final = 300.0
"""Brokers close what is idle for ten minutes (``connections.max.idle.ms``)."""


class Warmth(AbstractContextManager["Warmth"]):
    """Keeps one flow ready to start, in a thread of its own, until `end` or the block's end."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._over = threading.Event()
        self._has_rehearsed = False
        self._is_said: bool | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"{context.config.flow} warm", daemon=True
        )

    def __enter__(self) -> "Warmth":  # noqa: PYI034 - typing has Self from 3.11
        if self._context.standby and self._context.config.mode != "drain":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Begins nothing more: this process has the flow now."""
        self._over.set()

    def _run(self) -> None:
        due = 0.0
        while not self._over.wait(POLL_SECONDS):
            if self._context.outages.is_standby and time.monotonic() >= due:
                self._warm_up()
                due = time.monotonic() + REFRESH_SECONDS

    def _warm_up(self) -> None:
        began, said, log = time.monotonic(), self._is_said, self._context.log
        try:
            plan = self._look()
        except (ReplicationError, Py4JError) as error:
            self._is_said = False
            if said is not False and not self._over.is_set():
                log.warning("standby_not_ready", text=error)
        except Exception:  # the thread's edge: a takeover does without
            if not self._over.is_set():  # else the session may have ended
                log.exception("standby_not_ready", text="internal error, please report it")
        else:
            self._is_said = True
            if said is not True and plan is not None:
                seconds = round(time.monotonic() - began, 1)
                log.info("standby_ready", seconds=seconds, partitions=len(plan.partitions))

    def _look(self) -> TopicPlan | None:
        """Looks at tables and clusters; returns the topics, None if the flow has started."""
        context, flow = self._context, self._context.config.flow
        context.requests.read_changes(flow)
        reader_of(context.tables).offsets(flow).progress()
        plan = look(context.config, context.source, context.target)
        ends = context.source.log_ends(plan.partitions, context.config.isolation)
        if self._over.is_set():
            return None
        if not self._has_rehearsed:
            rehearse(context, plan, ends)
        self._has_rehearsed = True
        return plan


@contextmanager
def held_records(context: FlowContext, stop: Event, note: Late) -> Iterator[Lease | None]:
    """Holds the lease of the records for the block, as `FlowContext.hold` does.

    A standby keeps warm while it waits. If the block ends because the lease was lost, executors
    give up what they have in flight.

    *stop* ends the wait for the lease: the block then gets None. *note* is told that the target is
    silent; a drain fails instead.
    """
    when_late = None if context.config.mode == "drain" else note
    holding = context.hold("", stop, standby=context.standby, when_late=when_late)
    with Warmth(context) as warmth, holding as lease:
        warmth.end()
        try:
            yield lease
        except LeaseLostError:
            abandon_in_flight(context.started_spark, context.config.flow)
            raise
