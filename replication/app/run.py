"""Runs each flow in its own thread, as its own Spark query, and maps the outcome to an exit code.

A flow that fails does not stop the others. The exit code is that of the first failure.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from replication.app.admission import EXECUTOR_SECONDS, Admission
from replication.app.background import (
    background_checkpoints,
    background_heartbeats,
    background_metadata,
    checkpoints_once,
    is_drain,
)
from replication.app.flow_thread import FlowThread, wait_for_all
from replication.app.http_server import Liveness, served
from replication.app.process import (
    hold_run_folder,
    stop_on_signals,
    stop_with_parent,
    watch_open_files,
)
from replication.app.run_history import (
    Claims,
    JobOutcome,
    JobSpec,
    RunHistory,
    announce,
    await_first,
    log_outcome,
    open_claims,
    spark_start,
)
from replication.app.view import FiguresWriter, View
from replication.config.checks import idle_job_problem
from replication.config.file import load_config
from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.clients import clients_of, custom_classes
from replication.control.machine import java_temporary_obstacle
from replication.control.overrides import check_loops
from replication.errors import ConfigError, IdentityError, ReplicationError, SetupError, StateError
from replication.figures.observation import FlowState, Observation
from replication.flows.context import FlowContext, check_identity, refused_transforms
from replication.flows.outages import Outages
from replication.flows.publisher import look_at
from replication.flows.replicate.loop import replicate
from replication.flows.run_summary import RunSummary
from replication.flows.supervised import HeadStart
from replication.java import java_class
from replication.kafka.cluster import Cluster
from replication.kafka.jvm import ask_java, class_problems, is_submitted, rejected_properties
from replication.kafka.watch import Watches
from replication.log import Log, LogFormat, LogLevel, configure
from replication.mm2.policy import ask_with
from replication.model import Flow, Job, Mode, runs
from replication.spark.acknowledged import NOT_REPORTED, ReportedFigures, is_reported
from replication.spark.session import (
    LateSession,
    check_classic,
    check_interceptor,
    check_packages,
    check_static_settings,
    driver_jvm,
    driver_obstacle,
    flow_session,
    has_own_realtime,
    job_session,
    jvm_of,
    keep_gateway,
    limit_log,
    session,
    slots_of,
)
from replication.spark.transform_check import transform_problems
from replication.state.engine_mark import claim_engine
from replication.state.lease import LeaseBook, executors_here, holds_lease
from replication.state.locks import JobLocks, hold_jobs
from replication.state.requests import RequestChannel, StopRequests
from replication.state.storage import storage_for
from replication.state.tables import Tables

log = Log(__name__)


def check_session(launch: JobSpec, spark: SparkSession) -> None:
    """Makes sure that *spark* replicates what *launch* says as it must."""
    check_static_settings(spark)
    if not runs(launch.job, "records") or not launch.chosen:
        return
    if problems := [
        f"{flow.flow}.replication.transforms.{one.name}.{part}: {text}"
        for flow in launch.chosen
        for one in flow.transforms
        for part, text in transform_problems(spark, one)
    ]:
        raise ConfigError(launch.config.file, problems)
    if any(flow.record_timestamps == "preserve" for flow in launch.chosen):
        check_interceptor(jvm_of(spark))
    if not is_reported(spark):
        if limited := next((flow for flow in launch.chosen if flow.limits), None):
            raise SetupError(
                f"{limited.flow} cannot be limited to {limited.limits[0]}: {NOT_REPORTED}"
            )
        log.warning("records_not_reported", text=NOT_REPORTED)


def refuse(context: FlowContext, error: ReplicationError, _stop: threading.Event) -> None:
    """Ends the flow with *error*; its watches end as well."""
    with context.outages:
        raise error


def refusals(file: str, contexts: Sequence[FlowContext]) -> dict[Flow, ReplicationError]:
    """Returns the flows that must not run, and why; all are looked at side by side."""
    if not contexts:
        return {}
    with ThreadPoolExecutor(len(contexts), "identity") as pool:
        found = zip(contexts, pool.map(partial(_refusal, file), contexts), strict=True)
        return {context.config.flow: error for context, error in found if error is not None}


def _refusal(file: str, context: FlowContext) -> ReplicationError | None:
    """Returns why the flow must not run; what else may keep it from running is left to it."""
    try:
        check_identity(context)
        if problems := refused_transforms(context):
            return ConfigError(file, problems)
    except IdentityError as error:
        return error
    except StateError as error:
        context.log.info("clusters_not_checked", text=error)
    return None


Latest = Callable[[Flow], Observation | None]
"""Returns the newest observation of a flow; None before the first."""


class LatestObservations:
    """The newest observation of each flow of the process.

    Before Spark runs nobody observes; then a flow is `starting` or `standby`, which is all that is
    known of it. *ask* is that of `Liveness`.
    """

    def __init__(self, launch: JobSpec, ask: Callable[[], object] = lambda: None) -> None:
        self.pulse = Liveness(ask)
        self._launch = launch
        self._since = time.time()
        self._contexts = dict[Flow, FlowContext]()
        self._has_begun = False
        self._latest: Latest = lambda _flow: None

    def begin(self, contexts: Sequence[FlowContext], latest: Latest) -> None:
        """Shows the *latest* of flows that are about to run, and watches their loops."""
        self._since = time.time()
        self._has_begun = True
        self._latest = latest
        self._contexts = {context.config.flow: context for context in contexts}
        for context in contexts:
            self.pulse.watch(context.config.flow, context.metrics, context.outages)

    def look(self) -> Sequence[Observation]:
        """Returns an observation of each flow; for any thread."""
        return [self._latest(flow) or self._unseen(flow) for flow in self._launch.names]

    def _unseen(self, flow: Flow) -> Observation:
        if (context := self._contexts.get(flow)) is not None:
            return look_at(context, self._launch.job)
        state: FlowState = "standby" if self._launch.standby else "starting"
        if self._has_begun:  # heartbeats alone have no context
            state = "running"
        return Observation(flow, time.time(), state, self._since, runs=self._launch.job)


def run(
    file: str,
    flows: Sequence[str] = (),
    mode: Mode | None = None,
    job: Job = "mirror",
    log_format: LogFormat = "text",
    *,
    log_level: LogLevel = "info",
    standby: bool = False,
    clusters: str = "",
) -> JobOutcome:
    """Runs the flows of *file* until they are stopped or drained.

    Args:
        file: The configuration.
        flows: Names like ``A->B``; all enabled ones if empty. If none is enabled, heartbeats are
            all that runs.
        mode: Overrides ``replication.mode``.
        job: Which parts of the flows run; ``mirror`` runs all.
        log_format: The shape of the log lines on stderr.
        log_level: From which level on our own lines are logged.
        standby: Wait while another process runs a flow, and take over when that one ends.
        clusters: Aliases, separated by commas: only flows that write to one of them run. Empty for
            ``replication.target.clusters``.

    Returns:
        How the job ended; `replication.errors` lists the exit codes.
    """
    configure(log_format, log_level)
    started = time.monotonic()
    try:
        outcome = _run(file, clusters, flows, mode, job, standby=standby)
    except Exception as error:  # the process's edge: its last line is the cause
        log.exception("job_failed", text="internal error, please report it")
        outcome = JobOutcome.of(error)
    log_outcome(outcome, driver_jvm, time.monotonic() - started)
    if outcome.exit_code and not is_remote():
        announce(outcome, driver_jvm, partial(session, job))
    return outcome


def _run(
    file: str, clusters: str, flows: Sequence[str], mode: Mode | None, job: Job, *, standby: bool
) -> JobOutcome:
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # PySpark also logs every SQL error as a page of JSON; our errors say the same in a line
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        check_classic()
        if is_submitted():  # else the process and its log are a platform's
            limit_log(driver_jvm())
            keep_gateway()
        ask_with(ask_java)
        launch = _launch(file, clusters, flows, mode, job, standby=standby)
    except ReplicationError as error:
        log.error("start_failed", text=error)
        return replace(JobOutcome.of(error), before_spark=True)
    return _start(launch)


def _launch(
    file: str, clusters: str, flows: Sequence[str], mode: Mode | None, job: Job, *, standby: bool
) -> JobSpec:
    config = load_config(file, clusters, is_whole=True)
    config = replace(config, mode=mode or config.mode)
    chosen = _chosen(config, flows, mode, job)
    for warning in config.warnings:
        log.warning("configuration_warning", text=warning)
    for note in config.notes:
        log.info("configuration_note", text=note)
    return JobSpec(config, chosen, job, standby)


def _start(launch: JobSpec) -> JobOutcome:
    """Runs *launch*; from here on each of its flows has an end, which is recorded."""
    config, job = launch.config, launch.job
    ends, failure = RunHistory(launch), None
    # a name of Java's is asked for once: each one costs a search, and this is asked every second
    shown = LatestObservations(launch, java_class(driver_jvm(), "java.lang.System").nanoTime)
    try:
        problems = rejected_properties(driver_jvm(), clients_of(config))
        if problems := [*problems, *class_problems(custom_classes(config))]:
            raise ConfigError(config.file, problems)
        folder = str(driver_jvm().java.lang.System.getProperty("java.io.tmpdir"))
        if obstacle := java_temporary_obstacle(folder):
            raise SetupError(obstacle)
        if runs(job, "records"):
            check_loops(config)
        with (
            served(config.metrics, config.serve.allowed_hosts, shown.look, shown.pulse),
            hold_run_folder(),
            hold_jobs(config.state_dir, launch.names, job, standby=launch.standby) as locks,
            open_claims(launch) as claims,
        ):
            stop_with_parent(driver_jvm())
            watch_open_files([os.getpid(), driver_jvm().java.lang.ProcessHandle.current().pid()])
            if not await_first(launch, claims, shown.pulse.turn):
                return JobOutcome()
            shown.pulse.rest()
            return _run_in_spark(launch, claims, locks, ends, shown)
    except ReplicationError as error:
        log.error("start_failed", text=error)
        failure = error
        return replace(JobOutcome.of(error), before_spark=True)
    finally:
        # bad input begins no state directory
        ends.close(failure, may_begin=not isinstance(failure, (ConfigError, SetupError)))


def _run_in_spark(
    launch: JobSpec, claims: Claims, locks: JobLocks, ends: RunHistory, shown: LatestObservations
) -> JobOutcome:
    config, job = launch.config, launch.job
    flows = launch.names
    try:
        storage = storage_for(config.access)
        log.info("state_engine", engine=storage.engine, text=storage.why)
        check_packages(driver_jvm())
        with job_session(
            f"{job} {' '.join(map(str, flows))}",
            config.hadoop,
            partial(check_session, launch),
            spark_start(launch, storage.engine),
        ) as session:
            tables = Tables(session, config.state_dir, storage=storage)
            claim_engine(tables.files(), storage)
            channel = RequestChannel(tables.files(), config.state_dir)
            # heartbeats have no lease, so whoever emits them may answer
            holds = partial(holds_lease, tables, job=job) if launch.chosen else lambda _flow: True
            requests = (
                StopRequests(channel, flows, job, locks.holds, locks.address)
                if storage.is_local
                else StopRequests(channel, flows, job, holds)
            )
            application = _Application(session, launch, claims, channel, ends, shown)
            with ends.written_to(tables, application.head_start):
                outcome = application.run(tables, requests, locks)
            if not outcome.exit_code and ends.broken is not None:
                return JobOutcome.of(ends.broken)
            return outcome
    except ConfigError:  # bad input, of which only Spark knows
        raise
    except ReplicationError as error:
        log.error("job_failed", text=error)
        ends.end_others(error)
        return JobOutcome.of(error)


def _chosen(
    config: MirrorConfig, names: Sequence[str], mode: Mode | None, job: Job
) -> tuple[FlowConfig, ...]:
    known = {str(flow.flow): flow for flow in config.flows}
    unknown = [name for name in names if name not in known]
    if unknown:
        enabled = ", ".join(known)
        raise ConfigError(
            config.file,
            [f"--flow {name!r}: no such enabled flow; enabled: {enabled}" for name in unknown],
        )
    if problem := idle_job_problem(config, job):
        raise ConfigError(config.file, [problem])
    chosen = [known[name] for name in names] or list(known.values())
    return tuple(replace(flow, mode=mode) if mode else flow for flow in chosen)


def _watch(outages: Outages, stop: threading.Event) -> None:
    outages.begin()
    with outages:
        stop.wait()


class _Application:
    """The flows of one process, from the first one's start to the last one's end.

    Attributes:
        head_start: What needs not be there for the first record waits for it.
    """

    def __init__(
        self,
        session: LateSession,
        launch: JobSpec,
        claims: Claims,
        channel: RequestChannel,
        ends: RunHistory,
        shown: LatestObservations,
    ) -> None:
        self._session = session
        self._launch = launch
        self._claims = claims
        self._channel = channel
        self._ends = ends
        self._shown = shown
        self._chosen = launch.chosen
        self._job = launch.job
        copied = [flow.flow for flow in launch.chosen if runs(launch.job, "records")]
        self.head_start = HeadStart(copied, is_standby=launch.standby)
        self._watches = Watches()

    def run(self, tables: Tables, requests: StopRequests, locks: JobLocks) -> JobOutcome:
        drains = [flow.flow for flow in self._chosen if flow.mode == "drain"]
        leases = LeaseBook(tables, self._claims.values(), drains)
        contexts = [self._context(flow, tables, leases) for flow in self._chosen]
        for context in contexts:
            self._channel.changes_of(context.configured.flow)
        for context in contexts:
            self._channel.read_changes(context.configured.flow)
        reported, beats = ReportedFigures(driver_jvm()), self._launch.config.beats
        view = View(contexts, self._job, reported, FiguresWriter(tables), beats)
        admission = self._admission()
        refused = refusals(self._launch.config.file, contexts)
        threads = [
            FlowThread(
                context.config.flow,
                partial(refuse, context, refused[context.config.flow])
                if context.config.flow in refused
                else partial(_run_flow, context, admission, self._job),
                partial(self._end, view, context),
                partial(tables.record_events, context.config.flow),
                context.catch_up,
            )
            for context in contexts
        ]
        chosen = [flow for flow in self._chosen if flow.flow not in refused]
        config = self._launch.config
        if not self._chosen and not is_drain(config, ()):  # heartbeats only, until a stop
            threads = [self._beating(tables, pair) for pair in config.heartbeats]
        self._shown.begin(contexts, view.latest)
        stop_on_signals([thread.stop for thread in threads])
        with (
            view,
            background_heartbeats(self._session, config, chosen, self._job, self.head_start),
        ):
            for thread in threads:
                thread.start()
            turn = self._shown.pulse.turn
            return wait_for_all(threads, requests, locks, give_back=leases.give_back, turn=turn)

    def _end(
        self, view: View, context: FlowContext, error: BaseException | None, *, is_stopped: bool
    ) -> None:
        try:
            self._ends.end(context.config.flow, context.summary, error, is_stopped=is_stopped)
        except Exception as broken:
            error = error or broken
            raise
        finally:
            view.end(context, error, is_stopped=is_stopped)

    def _admission(self) -> Admission:
        spark = self._session.started
        version = pyspark.__version__ if spark is None else spark.version
        patience = EXECUTOR_SECONDS if executors_here() == "cluster" else 0.0
        return Admission(
            version, partial(slots_of, self._session), patience, has_realtime=has_own_realtime(),
            flows=self._chosen, obstacle=driver_obstacle(),
        )  # fmt: skip

    def _beating(self, tables: Tables, pair: HeartbeatsConfig) -> FlowThread:
        outages = Outages(tables, pair.flow, [pair], self._watches)
        ended = partial(self._ends.end, pair.flow, RunSummary())
        record = partial(tables.record_events, pair.flow)
        return FlowThread(pair.flow, partial(_watch, outages), ended, record)

    def _context(self, config: FlowConfig, tables: Tables, leases: LeaseBook) -> FlowContext:
        source = Cluster(config.source.alias, config.source.admin, prefers_java=True)
        target = Cluster(config.target.alias, config.target.admin, prefers_java=True)
        sides, is_drain = (config.source, config.target), config.mode == "drain"
        outages = Outages(tables, config.flow, sides, self._watches, is_drain=is_drain)
        outages.begin()
        return FlowContext(
            config,
            self._session.derived(flow_session),
            tables,
            source,
            target,
            self._channel,
            outages,
            claims=self._claims,
            leases=leases,
            standby=self._launch.standby,
            head_start=self.head_start,
            summary=self._ends.summary(config.flow),
        )


def _run_flow(context: FlowContext, admission: Admission, job: Job, stop: threading.Event) -> None:
    """Runs the parts of one flow that belong to *job*; a drain ends with one checkpoint round."""
    config = context.config
    left_out: ReplicationError | None = None
    with (
        context.outages,
        context.source,  # while other flows run, the clients of this one end
        context.target,
        # a stop ends all parts at once: each of them takes seconds on a remote state directory
        background_metadata(context, job, stop),
        background_checkpoints(context, job, stop) as last_round,
    ):
        if runs(job, "records"):
            left_out = replicate(context, admission.of(context, stop), stop)
        elif config.mode != "drain":
            stop.wait()
        # after the records, so that it covers all of them
        if config.mode == "drain":
            if not stop.is_set():
                checkpoints_once(context, job)
        elif context.catch_up.done:
            last_round()
            stop.set()
    if left_out is not None:
        raise left_out
