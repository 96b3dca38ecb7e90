"""Records how each flow of the process ended, in the table ``executions``.

Rows wait for each other, so that a drain of many flows makes one commit. A row that cannot be
written is logged, and neither holds a flow up nor fails it.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError

from replication.app.background import is_drain, wants_checkpoints, wants_metadata
from replication.config.home import RUN_FOLDER
from replication.config.transforms import chain_text, tried_transforms
from replication.config.tree import FlowConfig, MirrorConfig
from replication.errors import (
    ConfigError,
    GuardError,
    LeaseError,
    ReplicationError,
    SetupError,
    StateError,
    first_line,
)
from replication.flows.context import claim_lease
from replication.flows.run_summary import Killed, RunSummary
from replication.flows.supervised import HeadStart
from replication.java import java_class
from replication.kafka.jvm import has_our_classes, is_submitted
from replication.log import ENDED_FILE, Log, log_end
from replication.model import Flow, Job, runs
from replication.spark.acknowledged import is_on_class_path
from replication.spark.session import SparkStart, driver_jvm, end_log
from replication.state.claim import Claim, ClaimStep, LeaseName, leave, process_name
from replication.state.delta import is_quick, open_reader
from replication.state.executions import (
    EXECUTIONS,
    Ending,
    Execution,
    TopicEnd,
    append_without_spark,
    create_missing_tables,
    has_end,
    rows_of,
)
from replication.state.folder import local_path
from replication.state.lease import executors_here
from replication.state.requests import is_stop_file_there
from replication.state.table_reader import StateReader
from replication.state.tables import Tables, now, reader_of

log = Log(__name__)

# Reports how a job ended to the platform that started it: YARN's diagnostics, a pod's status.
#
# The exit code says little there, and in cluster deploy mode it may get lost. A configuration
# error or a refusal would end the next attempt as well, so YARN is told that this attempt was the
# last one.

FINAL: Final = {ConfigError.exit_code, GuardError.exit_code}
"""Another attempt would end the same way."""

LONGEST_TEXT: Final = 1000
APPLICATION_MASTER: Final = "org.apache.spark.deploy.yarn.ApplicationMaster$"
TERMINATION_LOG: Final = Path("/dev/termination-log")


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The exit code, and the cause as one line; ``JobOutcome()`` is a clean end.

    *before_spark*: whether the process ended before it had started Spark.
    """

    exit_code: int = 0
    cause: str = ""
    before_spark: bool = False

    @classmethod
    def of(cls, error: BaseException, subject: object = None) -> "JobOutcome":
        """Returns the outcome of *error*, which ended *subject*."""
        code = error.exit_code if isinstance(error, ReplicationError) else 1
        text = " ".join(str(error).split()) or type(error).__name__
        return cls(code, f"{subject}: {text}" if subject else text)

    def __str__(self) -> str:
        return f"exit code {self.exit_code}: {self.cause}"[:LONGEST_TEXT]


def log_outcome(outcome: JobOutcome, driver_jvm: Callable[[], JVMView], seconds: float) -> None:
    """Logs the last line of a process that has run for *seconds*, behind what the JVM says.

    *driver_jvm* is asked only if spark-submit has started the JVM.
    """
    if is_submitted():
        with suppress(Py4JError, OSError):  # it may have ended
            end_log(driver_jvm())
    log_end(outcome.exit_code, outcome.cause, seconds=round(seconds))
    if folder := os.environ.get(RUN_FOLDER):
        with suppress(OSError):  # a full disk: the script says it once more
            Path(folder, ENDED_FILE).touch()


def announce(
    outcome: JobOutcome, driver_jvm: Callable[[], JVMView], register: Callable[[], object]
) -> None:
    """Tells the platform of a failure. Must be the last step: YARN may end the process then.

    *driver_jvm* is asked only if spark-submit has started the JVM; *register* starts Spark, without
    which YARN does not know the attempt.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        with suppress(OSError):
            TERMINATION_LOG.write_text(str(outcome), encoding="utf-8")
    if not is_submitted():
        return
    jvm = driver_jvm()
    try:
        master = _application_master(jvm)
        if master is None:
            return
        if outcome.exit_code in FINAL and outcome.before_spark:
            register()
        failed = java_class(jvm, "org.apache.hadoop.yarn.api.records.FinalApplicationStatus").FAILED
        if outcome.exit_code in FINAL:
            master.unregister(failed, str(outcome))
        master.finish(failed, outcome.exit_code, str(outcome))
    except (Py4JError, TypeError) as error:  # py4j calls a missing class a package
        log.warning("outcome_not_announced", text=first_line(error))


def _application_master(jvm: JVMView) -> Any:  # noqa: ANN401 - a Java object
    """Returns YARN's application master, if it runs the driver (cluster deploy mode), else None."""
    try:
        holder = java_class(jvm, "java.lang.Class").forName(APPLICATION_MASTER)
    except Py4JError:
        return None
    for field in holder.getDeclaredFields():
        if field.getName().endswith("$master"):
            field.setAccessible(True)
            return field.get(None)
    return None


# The leases that a process needs, claimed before Spark starts.
#
# Joining a group takes seconds, in which Spark starts. A process that another one keeps from
# running its flows is refused at once and needs no Spark. A standby that will run for long starts
# Spark in its own process and waits with all that its flows need. One that would keep executors
# waits without, and so does a drain.

Claims = dict[LeaseName, Claim]

POLL_SECONDS: Final = 0.2
FIRST_ANSWER_SECONDS: Final = 5.0
"""A living owner is known by then. Without an answer Spark starts, and the flow waits on. On a
local state directory there is no wait at all: the lock has answered for this machine."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What one process is to run: flows, none *chosen* if it emits heartbeats only.

    A *standby* waits while another process runs a flow.
    """

    config: MirrorConfig
    chosen: Sequence[FlowConfig]
    job: Job
    standby: bool = False

    @property
    def names(self) -> tuple[Flow, ...]:
        """What runs, for locks and stop requests; see `MirrorConfig.names`."""
        return tuple(flow.flow for flow in self.chosen) or self.config.names


@contextmanager
def open_claims(launch: JobSpec) -> Iterator[Claims]:
    """Yields the claims of *launch*, which end with the block."""
    state_dir, jvm = launch.config.state_dir, driver_jvm()
    if not has_our_classes(jvm):
        text = "replication.jar is not on Spark's class path; pass it with --jars"
        if local_path(state_dir) is None:
            raise SetupError(f"no lease can be held: {text}")
        log.warning("lease_by_lock_only", text=f"other machines are not kept out: {text}")
    claims = {
        name: claim_lease(jvm, state_dir, flow, name, is_quick=launch.standby)
        for flow in launch.chosen
        for name in _leases_of(flow, launch.job)
    }
    mine = list(claims.values())  # a flow takes its own out of the mapping
    try:
        yield claims
    finally:
        leave(mine)


def await_first(launch: JobSpec, claims: Claims, turn: Callable[[], None]) -> bool:
    """Waits until Spark is worth starting; returns False if a stop was requested meanwhile.

    A standby that waits without Spark does so until it may replicate the records of a first flow.
    Other processes wait only a few seconds, long enough to learn of every live owner. The claims of
    other parts are made unless the records wait: whoever waits must not keep another process from
    the checkpoints. *turn* is called all the time.
    """
    records = [claim for name, claim in claims.items() if not name.part]
    is_local = local_path(launch.config.state_dir) is not None
    deadline = time.monotonic() + (0 if is_local else FIRST_ANSWER_SECONDS)
    is_warm = executors_here() == "local" and not is_drain(launch.config, launch.chosen)
    waits = launch.standby and not is_warm  # else a standby has Spark while it waits
    seen: set[ClaimStep] = set()
    while records:
        seen = {claim.await_step(standby=launch.standby) for claim in records}
        is_late = not waits and time.monotonic() > deadline
        if is_late or ("owner" in seen if waits else "joining" not in seen):
            break
        if is_stop_file_there():
            return False
        turn()
        time.sleep(POLL_SECONDS)
    if waits or not launch.standby or seen <= {"owner"}:
        for claim in claims.values():
            claim.look()
    return True


def _leases_of(flow: FlowConfig, job: Job) -> Iterator[LeaseName]:
    if runs(job, "records"):
        yield LeaseName(flow.flow)
    if wants_checkpoints(flow, job):
        yield LeaseName(flow.flow, "checkpoints")
    if wants_metadata(flow, job):
        yield LeaseName(flow.flow, "metadata")


WAIT_SECONDS: Final = 30.0
"""How long a row waits for those of other flows of the process, which may also end soon."""

LONGEST_SECONDS: Final = 60.0
"""How long the end of the process waits for its rows: the storage may be silent."""

NEVER_RELEASED: Final = (
    "the process did not give its lease back: it was killed, or lost its machine or the target; "
    "the next owner noticed it"
)


class RunHistory:
    """The ends of the flows of one process; a row waits *wait_seconds* for others."""

    def __init__(self, launch: JobSpec, wait_seconds: float = WAIT_SECONDS) -> None:
        self._launch = launch
        self._started_at = now()
        self._modes = {flow.flow: flow.mode for flow in launch.chosen}
        self._known = set[Flow | tuple[Flow, str]]()
        self._rows = _WaitingRows(launch, wait_seconds)

    def summary(self, flow: Flow) -> RunSummary:
        """Returns a tally for *flow*, whose owner before this process may have been killed."""
        return RunSummary(when_killed=partial(self._add_killed, flow))

    @contextmanager
    def written_to(self, tables: Tables, head_start: HeadStart) -> Iterator[None]:
        """Writes rows to *tables* during the block and at its end, and creates what is missing.

        What nobody has needed yet is created when *head_start* is over, or the block. An error that
        leaves the block is the end of every flow that has none.
        """
        over = threading.Event()
        arguments = (tables, head_start, over)
        creator = threading.Thread(target=_create, args=arguments, name="tables", daemon=True)
        creator.start()
        self._rows.tables = self._rows.begun = tables
        try:
            yield
        except Exception as error:
            self.end_others(error)
            raise
        finally:
            over.set()
            creator.join(LONGEST_SECONDS)
            self._rows.write_all()
            self._rows.tables = None

    @property
    def broken(self) -> Exception | None:
        """The internal error for which ends were not written; None without one."""
        return self._rows.broken

    def close(self, error: BaseException | None, *, may_begin: bool = True) -> None:
        """Writes what is left: the ends of flows that had no Spark session, by *error* or cleanly.

        *may_begin*: whether that is worth a state directory where there is none yet.
        """
        folder = local_path(self._launch.config.state_dir)
        if not may_begin and folder is not None and not folder.exists():
            return
        self.end_others(error)
        self._rows.write_all()

    def end_others(self, error: BaseException | None) -> None:
        """Records *error* as the end of each flow that has none."""
        for flow in self._launch.names:
            if flow not in self._known:
                self.end(flow, RunSummary(), error, is_stopped=True)

    def end(
        self, flow: Flow, summary: RunSummary, error: BaseException | None, *, is_stopped: bool
    ) -> None:
        """Records the end of *flow*, clean without an *error*; its rows are written later."""
        self._known.add(flow)
        add = partial(self._add, flow, summary, is_stopped=is_stopped)
        try:
            topics = summary.topics() if runs(self._launch.job, "records") else None
        except Exception as unknown:  # the end itself is known
            add(error or unknown, None)
            raise
        execution = add(error, topics)
        if summary.epoch is not None and topics is not None:
            _log_summary(execution)

    def _add(
        self,
        flow: Flow,
        summary: RunSummary,
        error: BaseException | None,
        topics: Sequence[TopicEnd] | None,
        *,
        is_stopped: bool,
    ) -> Execution:
        launch, outcome = self._launch, JobOutcome.of(error) if error else JobOutcome()
        execution = Execution(
            flow,
            launch.job,
            summary.metrics.look().copying.mode or self._modes.get(flow, launch.config.mode),
            process_name(),
            self._started_at,
            now(),
            self._ending(summary, error, is_stopped=is_stopped),
            outcome.exit_code,
            outcome.cause,
            summary.epoch,
            topics,
        )
        self._rows.add(execution)
        return execution

    def _ending(
        self, summary: RunSummary, error: BaseException | None, *, is_stopped: bool
    ) -> Ending:
        is_owner = summary.epoch is not None
        if isinstance(error, LeaseError):
            return "lease-lost" if is_owner else "kept-out"
        if error is not None:
            return "failed"
        if self._launch.standby and runs(self._launch.job, "records") and not is_owner:
            return "kept-out"
        return "stopped" if is_stopped else "finished"

    def _add_killed(self, flow: Flow, killed: Killed) -> None:
        """Records the end of the process that had *flow* before, unless it did so itself."""
        if (flow, killed.host) in self._known:  # one process has several leases of a flow
            return
        self._known.add((flow, killed.host))
        host, since, seen = killed.host, killed.since, killed.seen
        self._rows.add(
            Execution(
                flow, None, None, host, since, seen, "killed",
                cause=NEVER_RELEASED, epoch=killed.epoch,
            )
        )  # fmt: skip


def _log_summary(execution: Execution) -> None:
    topics = execution.topics or ()
    counted = [topic.bytes for topic in topics if topic.bytes is not None]
    log.bind(execution.flow).info(
        "flow_summary",
        mode=execution.mode,
        ending=execution.ending,
        seconds=round((execution.ended_at - execution.started_at).total_seconds()),
        records=sum(topic.records for topic in topics),
        bytes=sum(counted) if counted or not topics else None,
        topics=len(topics),
        topics_behind=sum(1 for topic in topics if topic.behind),
        topics_set_aside=sum(1 for topic in topics if topic.set_aside),
    )


class _WaitingRows:
    """Writes executions, several in one commit where they come close together."""

    def __init__(self, launch: JobSpec, wait_seconds: float) -> None:
        self.tables: Tables | None = None
        self.broken: Exception | None = None
        self.begun: Tables | None = None  # the same, and after the block as well
        self._config = launch.config
        self._wait_seconds = wait_seconds
        self._waiting: list[Execution] = []
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def add(self, execution: Execution) -> None:
        """Keeps *execution* until others have come, or the time is over."""
        with self._lock:
            self._waiting.append(execution)
            if self._timer is None and self.tables is not None:
                self._timer = threading.Timer(self._wait_seconds, self._write)
                self._timer.daemon = True
                self._timer.start()

    def write_all(self) -> None:
        """Writes what waits now; gives up after a while."""
        writer = threading.Thread(target=self._write, name="ends", daemon=True)
        writer.start()
        writer.join(LONGEST_SECONDS)
        if writer.is_alive():
            text = f"{self._config.state_dir} has not answered for {LONGEST_SECONDS:g} s"
            log.warning("executions_not_written", text=text)

    def _write(self) -> None:
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
                some, self._waiting = self._waiting, []
            try:
                self._append(some)
            except (ReplicationError, Py4JError) as error:
                flows = ", ".join(sorted({str(one.flow) for one in some}))
                log.warning("executions_not_written", flows=flows, text=error)
                with self._lock:
                    self._waiting = [*some, *self._waiting]
            except Exception as error:  # the thread's edge: nothing above would see it
                self.broken = error
                log.exception("executions_not_written", text="internal error, please report it")

    def _append(self, executions: list[Execution]) -> None:
        tables = self.tables
        if tables is None:
            rows = [row for one in executions for row in rows_of(one)]
            if rows and self.begun is not None:
                self.begun.check_folder()  # what has disappeared is not made anew at the end
            if rows:
                append_without_spark(self._config.access, rows)
            return
        state = reader_of(tables)
        rows = [
            row
            for one in executions
            if one.ending != "killed" or not has_end(state, one.flow, one.host, one.started_at)
            for row in rows_of(one)
        ]
        tables.append(EXECUTIONS, rows)


def _create(tables: Tables, head_start: HeadStart, over: threading.Event) -> None:
    head_start.await_end(over)
    try:
        create_missing_tables(tables)
    except (ReplicationError, Py4JError) as error:  # what needs a table says so itself
        log.warning("tables_not_created", text=error)
    except Exception:  # the thread's edge: nothing above would see it
        log.exception("tables_not_created", text="internal error, please report it")


# When a job's Spark starts: before its flows, beside their first steps, or when it is needed.
#
# A drain may find nothing to copy, so that it needs none.

_KEYS: Final = ("remote_topic",)


def spark_start(launch: JobSpec, engine: str) -> SparkStart:
    """Returns when Spark starts for *launch*.

    Lease, topics and positions need none, so that a flow takes these steps while it starts. What
    only a session can refuse is refused before a flow has done anything.
    """
    if is_drain(launch.config, launch.chosen):
        return "when needed" if _may_start_late(launch) else "before"
    if any(flow.transforms for flow in launch.chosen):  # Spark says whether they are valid
        return "before"
    needs_none = launch.chosen and engine == "delta-rs" and is_on_class_path(driver_jvm())
    return "beside" if needs_none else "before"


def _may_start_late(launch: JobSpec) -> bool:
    """Returns whether *launch*, a drain, may start Spark when it is first needed, if it ever is.

    A transform that this Spark has not taken yet is tried first: it may be bad input, which ends a
    start before anything else begins.
    """
    changing = [flow for flow in launch.chosen if flow.transforms]
    if not changing:
        return True
    access = launch.config.access
    if not is_quick(access):  # the tables are Spark's then, and so is the answer
        return False
    try:
        with open_reader(access) as state:
            return all(_are_tried(state, flow) for flow in changing)
    except StateError:  # the start meets it as well, and says it
        return False


def _are_tried(state: StateReader, flow: FlowConfig) -> bool:
    rows = state.newest("topics", flow.flow, _KEYS, ["at"])
    version = pyspark.__version__
    wanted = {chain_text((one,), version) for one in flow.transforms}
    return wanted <= tried_transforms(rows, version)
