"""The application: from a configuration file to running flows, and from their ends to an exit code.

Every flow is a thread of its own here and a query of its own in Spark. One that fails does not
stop the others; the exit code is the first failure's.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from replication.app.background import (
    background_checkpoints,
    background_heartbeats,
    checkpoints_once,
)
from replication.app.signals import stop_on_signals
from replication.config.file import load_config
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import ConfigError, GuardError, ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.loop import replicate
from replication.kafka.cluster import Cluster
from replication.log import Log, LogFormat, configure
from replication.model import RECORDS, Flow, Job, Mode
from replication.spark.mode import choose_mode
from replication.spark.requirements import check_interceptor, check_packages
from replication.spark.session import jvm_of, session, task_slots
from replication.state.job_lock import JobLocks, hold_jobs
from replication.state.lease import holds_lease
from replication.state.paths import local_path
from replication.state.request_files import HadoopFiles, LocalFiles
from replication.state.stop_requests import POLL_SECONDS, StopRequests
from replication.state.tables import Tables
from replication.topics.conflicts import find_conflicts
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)

REMIND_SECONDS = 60


def run(
    file: str,
    flows: Sequence[str] = (),
    mode: Mode | None = None,
    job: Job = "mirror",
    log_format: LogFormat = "text",
) -> int:
    """Runs the flows of *file* until they are stopped or drained.

    Args:
        file: The configuration.
        flows: Names like ``A->B``; all enabled ones if empty.
        mode: Overrides ``replication.mode``.
        job: Which part of them: ``mirror`` is all.
        log_format: The shape of the log lines on stderr.

    Returns:
        The exit code; `replication.errors` lists them.
    """
    configure(log_format)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # PySpark prints every SQL error once more as a page of JSON; ours say it in a line
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        config = load_config(file)
        chosen = _chosen(config, flows, mode)
        for note in config.notes:
            log.info("configuration_note", text=note)
        with hold_jobs(config.state_dir, [it.flow for it in chosen], job) as locks:
            return _run_in_spark(config, chosen, job, locks)
    except ReplicationError as error:
        log.error("start_failed", text=error)
        return error.exit_code


def _run_in_spark(
    config: MirrorConfig, chosen: Sequence[FlowConfig], job: Job, locks: JobLocks
) -> int:
    flows = [it.flow for it in chosen]
    requests = StopRequests(LocalFiles(), config.state_dir, flows, job, locks.holds)
    if local_path(config.state_dir):
        requests.watch()
    spark = session(f"{job} {' '.join(map(str, flows))}")
    try:
        check_packages(spark)
        tables = Tables(spark, config.state_dir)
        if not local_path(config.state_dir):
            context = spark.sparkContext
            files = HadoopFiles(jvm_of(spark), context._jsc.hadoopConfiguration())  # noqa: SLF001
            holds = partial(holds_lease, tables, job=job)
            requests = StopRequests(files, config.state_dir, flows, job, holds)
        return _Application(spark, config, chosen, job).run(tables, requests, locks)
    except ReplicationError as error:
        log.error("job_failed", text=error)
        return error.exit_code
    finally:
        spark.stop()


def _chosen(
    config: MirrorConfig, names: Sequence[str], mode: Mode | None
) -> tuple[FlowConfig, ...]:
    known = {str(it.flow): it for it in config.flows}
    unknown = [name for name in names if name not in known]
    if unknown:
        enabled = ", ".join(known)
        raise ConfigError(
            config.file,
            [f"--flow {name!r}: no enabled flow; enabled are {enabled}" for name in unknown],
        )
    chosen = [known[name] for name in names] or list(known.values())
    return tuple(replace(it, mode=mode) if mode else it for it in chosen)


class _Flow(threading.Thread):
    """A flow's thread; afterwards ``error`` says why it ended, None for a clean end."""

    def __init__(self, context: FlowContext, admit: "_Admission", job: Job) -> None:
        config = context.config
        super().__init__(name=str(config.flow), daemon=True)
        self.config, self.stop = context.config, threading.Event()
        self.error: BaseException | None = None
        self._context, self._admit, self._job = context, admit, job

    def run(self) -> None:
        try:
            with background_checkpoints(self._context, self._job):
                if self._job in RECORDS:
                    admit = partial(self._admit, self.config)
                    replicate(self._context, admit, self.stop)
                elif self.config.mode != "drain":
                    self.stop.wait()
            if self.config.mode == "drain" and not self.stop.is_set():
                checkpoints_once(self._context, self._job)  # as fresh as the records
        except ReplicationError as error:
            self.error = error
            log.error("flow_failed", flow=self.config.flow, text=error)
        except BaseException as error:  # the thread's edge: nothing above would see it
            self.error = error
            log.exception(
                "flow_failed", flow=self.config.flow, text="an internal error, please report it"
            )

    @property
    def exit_code(self) -> int:
        if isinstance(self.error, ReplicationError):
            return self.error.exit_code
        return 1 if self.error else 0


class _Admission:
    """Lets a plan run: no topic with two writers, and a mode for which the slots suffice."""

    def __init__(self, spark: SparkSession, cluster_ids: dict[str, str]) -> None:
        self._version, self._slots = spark.version, task_slots(spark)
        self._cluster_ids = cluster_ids
        self._plans: dict[Flow, TopicPlan] = {}
        self._lock = threading.Lock()

    def __call__(self, config: FlowConfig, plan: TopicPlan) -> Mode:
        with self._lock:
            plans = {**self._plans, config.flow: plan}
            found = find_conflicts(plans, self._cluster_ids)
            if found:
                raise GuardError("\n".join(found))
            self._plans = plans
            partitions = sum(len(it.partitions) for it in plans.values())
        choice = choose_mode(
            config.mode, spark=self._version, slots=self._slots, partitions=partitions
        )
        log.info("mode_chosen", flow=config.flow, mode=choice.mode, text=choice.reason)
        return choice.mode


class _Application:
    """The flows of one process, from start to the last one's end."""

    def __init__(
        self, spark: SparkSession, config: MirrorConfig, chosen: Sequence[FlowConfig], job: Job
    ) -> None:
        self._spark, self._config, self._chosen, self._job = spark, config, chosen, job

    def run(self, tables: Tables, requests: StopRequests, locks: JobLocks) -> int:
        if self._job in RECORDS and any(it.record_timestamps == "preserve" for it in self._chosen):
            check_interceptor(self._spark)
        clusters_of = {it.flow: self._clusters(it) for it in self._chosen}
        cluster_ids = {
            cluster.alias: cluster.cluster_id() for pair in clusters_of.values() for cluster in pair
        }
        admit = _Admission(self._spark, cluster_ids)
        flows = [
            _Flow(FlowContext(it, self._spark, tables, *clusters_of[it.flow]), admit, self._job)
            for it in self._chosen
        ]
        stop_on_signals([flow.stop for flow in flows])
        with background_heartbeats(tables.spark, self._config, self._chosen, self._job):
            for flow in flows:
                flow.start()
            _wait(flows, requests, locks)
        return next((flow.exit_code for flow in flows if flow.exit_code), 0)

    @staticmethod
    def _clusters(config: FlowConfig) -> tuple[Cluster, Cluster]:
        return (
            Cluster(config.source.alias, config.source.admin),
            Cluster(config.target.alias, config.target.admin),
        )


def _wait(flows: Sequence[_Flow], requests: StopRequests, locks: JobLocks) -> None:
    """Until every flow has ended. A dead flow among living ones is said again and again."""
    reminded = time.monotonic()
    while any(flow.is_alive() for flow in flows):
        asked = requests.find()
        for flow in flows:
            if flow.config.flow in asked and not flow.stop.is_set():
                log.info("flow_stopping", flow=flow.config.flow, text="stop requested")
                flow.stop.set()
            flow.join(POLL_SECONDS / len(flows))
            if not flow.is_alive():
                requests.answer(flow.config.flow)
                locks.release(flow.config.flow)
        if time.monotonic() - reminded > REMIND_SECONDS:
            reminded = time.monotonic()
            for flow in flows:
                if flow.error:
                    log.error("flow_down", flow=flow.config.flow, text=flow.error)
    for flow in flows:
        if not flow.error:
            log.info("flow_ended", flow=flow.config.flow)
