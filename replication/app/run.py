"""Runs each flow in its own thread, as its own Spark query, and maps the outcome to an exit code.

A flow that fails does not stop the others. The exit code is that of the first failure.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyspark
from pyspark.sql.utils import is_remote

from replication.app.admission import EXECUTOR_SECONDS, Admission
from replication.app.background import (
    background_checkpoints,
    background_heartbeats,
    background_metadata,
    checkpoints_once,
    is_drain,
)
from replication.app.claims import Claims, Launch, await_first, open_claims
from replication.app.ends import Ends
from replication.app.figures_writer import FiguresWriter
from replication.app.flow_thread import FlowThread, wait_for_all
from replication.app.late_start import spark_start
from replication.app.metrics_server import served
from replication.app.open_files import watch_open_files
from replication.app.outcome import JobOutcome, announce, log_outcome
from replication.app.parent import stop_with_parent
from replication.app.refusals import refusals, refuse
from replication.app.run_folder import hold_run_folder
from replication.app.session_check import check_session
from replication.app.shown import Shown
from replication.app.signals import stop_on_signals
from replication.app.view import View
from replication.config.checks import idle_job_problem
from replication.config.file import load_config
from replication.config.group_settings import HeartbeatsConfig
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.clients import clients_of, custom_classes
from replication.control.loops import check_loops
from replication.control.machine import java_temporary_obstacle
from replication.errors import ConfigError, ReplicationError, SetupError
from replication.flows.context import FlowContext
from replication.flows.head_start import HeadStart
from replication.flows.outages import Outages
from replication.flows.replicate.loop import replicate
from replication.flows.tally import Tally
from replication.java import java_class
from replication.kafka.client_check import rejected_properties
from replication.kafka.cluster import Cluster
from replication.kafka.jvm import is_submitted
from replication.kafka.user_classes import ask_java, class_problems
from replication.kafka.watch import Watches
from replication.log import Log, LogFormat, LogLevel, configure
from replication.mm2.custom import ask_with
from replication.model import Flow, Job, Mode, runs
from replication.spark.jvm_log import limit_log
from replication.spark.late import LateSession
from replication.spark.reported_figures import ReportedFigures
from replication.spark.requirements import check_packages
from replication.spark.session import (
    check_classic,
    driver_jvm,
    driver_obstacle,
    flow_session,
    has_own_realtime,
    job_session,
    keep_gateway,
    session,
    slots_of,
)
from replication.state.engine_mark import claim_engine
from replication.state.job_lock import JobLocks, hold_jobs
from replication.state.lease import executors_here, holds_lease
from replication.state.lease_book import LeaseBook
from replication.state.open_storage import storage_for
from replication.state.requests import RequestChannel
from replication.state.stop_requests import StopRequests
from replication.state.tables import Tables

log = Log(__name__)


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
) -> Launch:
    """Returns what the process is to run."""
    config = load_config(file, clusters, is_whole=True)
    config = replace(config, mode=mode or config.mode)
    chosen = _chosen(config, flows, mode, job)
    for warning in config.warnings:
        log.warning("configuration_warning", text=warning)
    for note in config.notes:
        log.info("configuration_note", text=note)
    return Launch(config, chosen, job, standby)


def _start(launch: Launch) -> JobOutcome:
    """Runs *launch*; from here on each of its flows has an end, which is recorded."""
    config, job = launch.config, launch.job
    ends, failure = Ends(launch), None
    # a name of Java's is asked for once: each one costs a search, and this is asked every second
    shown = Shown(launch, java_class(driver_jvm(), "java.lang.System").nanoTime)
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
    launch: Launch, claims: Claims, locks: JobLocks, ends: Ends, shown: Shown
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
            holds = partial(holds_lease, tables, job=job) if launch.chosen else _always
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


def _always(_flow: Flow) -> bool:
    """Returns true: heartbeats have no lease, so whoever emits them may answer."""
    return True


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
        launch: Launch,
        claims: Claims,
        channel: RequestChannel,
        ends: Ends,
        shown: Shown,
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
        """Records and shows how a flow has ended."""
        try:
            self._ends.end(context.config.flow, context.tally, error, is_stopped=is_stopped)
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
        """Returns the thread of a pair that has nothing but heartbeats."""
        outages = Outages(tables, pair.flow, [pair], self._watches)
        ended = partial(self._ends.end, pair.flow, Tally())
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
            tally=self._ends.tally(config.flow),
        )


def _run_flow(context: FlowContext, admission: Admission, job: Job, stop: threading.Event) -> None:
    """Runs the parts of one flow that belong to *job*; a drain ends with one checkpoint round.

    Raises:
        ReplicationError: The flow failed, or a drain has set topics aside.
    """
    config = context.config
    left_out: ReplicationError | None = None
    with (
        context.outages,
        context.source,  # while other flows run, the clients of this one end
        context.target,
        # a stop ends all parts at once: each of them takes seconds on a remote state directory
        background_metadata(context, job, stop),
        background_checkpoints(context, job, stop),
    ):
        if runs(job, "records"):
            left_out = replicate(context, admission.of(context, stop), stop)
        elif config.mode != "drain":
            stop.wait()
        if config.mode == "drain" and not stop.is_set():
            checkpoints_once(context, job)  # after the records, so that it covers all of them
    if left_out is not None:
        raise left_out
