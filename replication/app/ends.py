"""Records how each flow of the process ended, in the table ``executions``.

Rows wait for each other, so that a drain of many flows makes one commit. A row that cannot be
written is logged, and neither holds a flow up nor fails it.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from py4j.protocol import Py4JError

from replication.app.claims import Launch
from replication.app.outcome import JobOutcome
from replication.errors import LeaseError, ReplicationError
from replication.flows.head_start import HeadStart
from replication.flows.tally import Killed, Tally
from replication.log import Log
from replication.model import Flow, runs
from replication.state.claim import process_name
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
from replication.state.paths import local_path
from replication.state.spark_reader import reader_of
from replication.state.tables import Tables, now

log = Log(__name__)


WAIT_SECONDS: Final = 30.0
"""How long a row waits for those of other flows of the process, which may also end soon."""

LONGEST_SECONDS: Final = 60.0
"""How long the end of the process waits for its rows: the storage may be silent."""

NEVER_RELEASED: Final = (
    "the process did not give its lease back: it was killed, or lost its machine or the target; "
    "the next owner noticed it"
)


class Ends:
    """The ends of the flows of one process.

    Args:
        launch: What the process runs.
        wait_seconds: How long a row waits for others.
    """

    def __init__(self, launch: Launch, wait_seconds: float = WAIT_SECONDS) -> None:
        self._launch = launch
        self._started_at = now()
        self._modes = {flow.flow: flow.mode for flow in launch.chosen}
        self._known = set[Flow | tuple[Flow, str]]()
        self._rows = _WaitingRows(launch, wait_seconds)

    def tally(self, flow: Flow) -> Tally:
        """Returns a tally for *flow*, whose owner before this process may have been killed."""
        return Tally(when_killed=partial(self._add_killed, flow))

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
        """Writes what is left: the ends of flows that had no Spark session.

        Args:
            error: What ended them; None if nothing failed.
            may_begin: Whether that is worth a state directory where there is none yet.
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
                self.end(flow, Tally(), error, is_stopped=True)

    def end(
        self, flow: Flow, tally: Tally, error: BaseException | None, *, is_stopped: bool
    ) -> None:
        """Records the end of *flow*; its rows are written a little later.

        Args:
            flow: The flow.
            tally: What it has replicated.
            error: What ended it; None for a clean end.
            is_stopped: Whether it was to stop.
        """
        self._known.add(flow)
        add = partial(self._add, flow, tally, is_stopped=is_stopped)
        try:
            topics = tally.topics() if runs(self._launch.job, "records") else None
        except Exception as unknown:  # the end itself is known
            add(error or unknown, None)
            raise
        execution = add(error, topics)
        if tally.epoch is not None and topics is not None:
            _log_summary(execution)

    def _add(
        self,
        flow: Flow,
        tally: Tally,
        error: BaseException | None,
        topics: Sequence[TopicEnd] | None,
        *,
        is_stopped: bool,
    ) -> Execution:
        launch, outcome = self._launch, JobOutcome.of(error) if error else JobOutcome()
        execution = Execution(
            flow,
            launch.job,
            tally.board.look().copying.mode or self._modes.get(flow, launch.config.mode),
            process_name(),
            self._started_at,
            now(),
            self._ending(tally, error, is_stopped=is_stopped),
            outcome.exit_code,
            outcome.cause,
            tally.epoch,
            topics,
        )
        self._rows.add(execution)
        return execution

    def _ending(self, tally: Tally, error: BaseException | None, *, is_stopped: bool) -> Ending:
        is_owner = tally.epoch is not None
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
        self._rows.add(
            Execution(
                flow,
                None,
                None,
                killed.host,
                killed.since,
                killed.seen,
                "killed",
                cause=NEVER_RELEASED,
                epoch=killed.epoch,
            )
        )


def _log_summary(execution: Execution) -> None:
    """Logs in one line what a start of a flow has replicated."""
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

    def __init__(self, launch: Launch, wait_seconds: float) -> None:
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
