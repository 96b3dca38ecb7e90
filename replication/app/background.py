"""What runs beside the records: checkpoints for each flow, heartbeats for each pair of clusters."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from replication.config.tree import FlowConfig, HeartbeatsConfig, MirrorConfig
from replication.flows.checkpoints.rounds import Checkpoints
from replication.flows.context import FlowContext
from replication.flows.heartbeats import Heartbeats, emit_once
from replication.flows.supervised import Supervised
from replication.model import Flow, Job
from replication.state.lease import LeaseName, hold_lease

# Which jobs run the checkpoints with the group sync, and which the heartbeats.
CHECKPOINTS: frozenset[Job] = frozenset({"mirror", "checkpoints"})
HEARTBEATS: frozenset[Job] = frozenset({"mirror", "heartbeats"})

JOIN_SECONDS = 10.0


@contextmanager
def background_checkpoints(context: FlowContext, job: Job) -> Iterator[None]:
    """Runs the flow's checkpoint query for the block, if *job* and configuration want one.

    A drain has no query: its one round, `checkpoints_once`, comes when the records are across.
    """
    config = context.config
    if not _wants_checkpoints(config, job) or config.mode == "drain":
        yield
        return
    stop = threading.Event()
    thread = Supervised(
        f"{config.flow.slug} checkpoints",
        context.tables.spark,
        Checkpoints(context).query,
        stop,
        partial(hold_lease, context.tables, LeaseName(config.flow, "checkpoints")),
    )
    with _running(thread, stop):
        yield


def checkpoints_once(context: FlowContext, job: Job) -> None:
    """One round, if *job* and configuration want checkpoints.

    Raises:
        ClusterError: A cluster does not answer, or refuses.
        StateError: The tables cannot be read or written.
    """
    config = context.config
    if _wants_checkpoints(config, job):
        with hold_lease(context.tables, LeaseName(config.flow, "checkpoints")):
            Checkpoints(context).round(at_once=True)


def _wants_checkpoints(config: FlowConfig, job: Job) -> bool:
    wanted = config.groups.checkpoints_enabled or config.groups.sync_enabled
    return job in CHECKPOINTS and wanted


@contextmanager
def background_heartbeats(
    spark: SparkSession, config: MirrorConfig, chosen: Sequence[FlowConfig], job: Job
) -> Iterator[None]:
    """Runs the heartbeats of all pairs that belong to *chosen* for the block, as one query.

    Where all flows drain, a heartbeat each is emitted before the block instead.
    """
    wanted = [it for it in config.heartbeats if job in HEARTBEATS and _belongs(it, config, chosen)]
    if not wanted or all(it.mode == "drain" for it in chosen):
        for it in wanted:
            emit_once(it)
        yield
        return
    stop = threading.Event()
    with _running(
        Supervised("heartbeats", spark, partial(Heartbeats(wanted, stop).query, spark), stop), stop
    ):
        yield


def _belongs(
    heartbeats: HeartbeatsConfig, config: MirrorConfig, chosen: Sequence[FlowConfig]
) -> bool:
    """Whether this process emits them: for its flows, and for their reverse if nobody runs that."""
    flows = {it.flow for it in chosen}
    enabled = {it.flow for it in config.flows}
    mine, reverse = heartbeats.flow, Flow(heartbeats.flow.target, heartbeats.flow.source)
    if flows == enabled:
        return True
    return mine in flows or (mine not in enabled and reverse in flows)


@contextmanager
def _running(thread: Supervised, stop: threading.Event) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(JOIN_SECONDS)
