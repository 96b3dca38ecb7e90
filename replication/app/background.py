"""Background queries: checkpoints and topic metadata per flow, heartbeats per cluster pair."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import LeaseError
from replication.flows.checkpoints import Checkpoints
from replication.flows.context import FlowContext, Identity
from replication.flows.heartbeats import Heartbeats, emitting_once
from replication.flows.metadata import MetadataSync, is_wanted
from replication.flows.supervised import POLL_SECONDS, HeadStart, Supervised
from replication.model import Flow, Job, runs
from replication.spark.session import LateSession, Session
from replication.state.lease import Lease

JOIN_SECONDS = 10.0
METADATA_POLL_SECONDS = 5.0
"""How long a failure of that query may go unnoticed: it has a round in minutes."""

STOP_SECONDS = 0.5
"""Between two looks of a standby that waits for the records whether it is to stop."""

LAST_ROUND_SECONDS = 30.0
"""How long the last round waits for the lease: a killed process keeps it for about 10 s."""


@contextmanager
def background_checkpoints(
    context: FlowContext, job: Job, stop: threading.Event
) -> Iterator[Callable[[], None]]:
    """Runs the flow's checkpoint query during the block, if *job* runs checkpoints.

    A drain has no such query: `checkpoints_once` does its one round after the records.
    *stop* ends the query before the block ends, which sets it. Yields what does a last round,
    which covers all that is copied.
    """
    config = context.config
    if not wants_checkpoints(config, job) or config.mode == "drain":
        yield lambda: None
        return
    checkpoints = Checkpoints(context)
    with _flow_query(
        context,
        "checkpoints",
        job,
        stop,
        checkpoints.query,
        before_stop=checkpoints.end_batch,
        after_stop=checkpoints.finish,
    ):
        yield partial(_last_round, context, checkpoints, stop)


def _last_round(context: FlowContext, checkpoints: Checkpoints, stop: threading.Event) -> None:
    """Does a round under the lease of the query, which may not have begun yet.

    Raises:
        LeaseError: Another process has the lease, or the query cannot begin: nothing is copied any
            more, so the flow must not wait for it.
    """
    deadline = time.monotonic() + LAST_ROUND_SECONDS
    while (lease := context.held.get("checkpoints")) is None:
        if time.monotonic() > deadline:
            flow = context.config.flow
            text = f"{flow} has caught up, but this process does not have the lease of checkpoints"
            raise LeaseError(f"{text}, so no last round of them covers all")
        if stop.wait(STOP_SECONDS):
            context.catch_up.done = frozenset()
            return
    lease.check()
    checkpoints.last_round()


def checkpoints_once(context: FlowContext, job: Job) -> None:
    """Does one round of checkpoints and group sync, if *job* runs them."""
    config = context.config
    if wants_checkpoints(config, job):
        Identity(context).check()
        context.check_not_held()
        with context.hold("checkpoints"):
            Checkpoints(context).round(at_once=True)


def wants_checkpoints(config: FlowConfig, job: Job) -> bool:
    """Returns whether *job* translates the flow's groups."""
    is_enabled = config.groups.checkpoints_enabled or config.groups.sync_enabled
    return is_enabled and runs(job, "checkpoints")


def wants_metadata(config: FlowConfig, job: Job) -> bool:
    """Returns whether *job* keeps the settings and ACLs of the flow's remote topics in step."""
    return is_wanted(config) and runs(job, "metadata")


@contextmanager
def background_metadata(context: FlowContext, job: Job, stop: threading.Event) -> Iterator[None]:
    """Keeps what describes remote topics in step for the block, if *job* and configuration say so.

    A drain does its one round before the block: the target must not delete what is then copied.
    *stop* ends the query before the block ends, which sets it.
    """
    config = context.config
    if not wants_metadata(config, job):
        yield
    elif config.mode == "drain":
        Identity(context).check()
        context.check_not_held()
        with context.hold("metadata"):
            error = MetadataSync(context).round()
        yield
        if error is not None:
            raise error
    else:
        query = MetadataSync(context).query
        with _flow_query(context, "metadata", job, stop, query, METADATA_POLL_SECONDS):
            yield


@contextmanager
def background_heartbeats(
    spark: Session,
    config: MirrorConfig,
    chosen: Sequence[FlowConfig],
    job: Job,
    head_start: HeadStart | None = None,
) -> Iterator[None]:
    """Runs the heartbeats of all pairs that belong to *chosen* during the block, as one query.

    In a drain each pair gets one heartbeat beside the block instead.
    """
    pairs = [pair for pair in config.heartbeats if _belongs(pair, config, chosen)]
    if not pairs or not runs(job, "heartbeats"):
        yield
    elif is_drain(config, chosen):
        with emitting_once(pairs):
            yield
    else:
        stop = threading.Event()
        session, heartbeats = LateSession.of(spark), Heartbeats(pairs, stop)
        thread = Supervised(
            "heartbeats",
            session,
            lambda: heartbeats.query(session.get()),
            stop,
            head_start=head_start,
        )
        with _running(thread, stop):
            yield


def is_drain(config: MirrorConfig, chosen: Sequence[FlowConfig]) -> bool:
    """Returns whether all of *chosen* drain; without a flow the mode of *config* counts."""
    return ({flow.mode for flow in chosen} or {config.mode}) == {"drain"}


def _belongs(
    heartbeats: HeartbeatsConfig, config: MirrorConfig, chosen: Sequence[FlowConfig]
) -> bool:
    """Returns whether this process emits them: for its flows, and for a disabled reverse of one."""
    flows = {flow.flow for flow in chosen}
    enabled = {flow.flow for flow in config.flows}
    mine, reverse = heartbeats.flow, Flow(heartbeats.flow.target, heartbeats.flow.source)
    if flows == enabled:
        return True
    return mine in flows or (mine not in enabled and reverse in flows)


@contextmanager
def _flow_query(
    context: FlowContext,
    part: str,
    job: Job,
    stop: threading.Event,
    query: Callable[[], DataStreamWriter],
    poll_seconds: float = POLL_SECONDS,
    **around_stop: Callable[[], None],
) -> Iterator[None]:
    """Runs a query of a flow, at the same time as its records, under the lease of that part."""
    name = f"{context.config.flow.slug} {part}"

    def lease() -> AbstractContextManager[Lease | None]:
        if not _await_records(context, job, stop):
            return nullcontext()
        Identity(context).check()
        return context.hold(part, stop, standby=True)

    thread = Supervised(
        name,
        context.tables.session,
        query,
        stop,
        lease=lease,
        **around_stop,
        head_start=context.head_start,
    )
    thread.poll_seconds = poll_seconds
    with _running(thread, stop):
        yield


def _await_records(context: FlowContext, job: Job, stop: threading.Event) -> bool:
    """Waits until a standby has the records, which the other parts follow; false if it is to stop.

    Else a standby would take such a part from a process that has just started, or lost it.
    """
    if context.standby and runs(job, "records"):
        while not context.owns.wait(STOP_SECONDS):
            if stop.is_set():
                return False
    return True


@contextmanager
def _running(thread: Supervised, stop: threading.Event) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(JOIN_SECONDS)
    if thread.broken is not None:
        raise thread.broken
