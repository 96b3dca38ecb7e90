"""Keeps a background query running: restarts it on failure, stops it on request.

A failing heartbeat or checkpoint query never stops replication.
"""

import math
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Event
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.backoff import Backoff
from replication.errors import FlowError, ReplicationError, first_line
from replication.log import Log
from replication.model import Flow
from replication.spark.causes import error_of, said
from replication.spark.session import LateSession, Session, checkpoint_location, temporary_folder
from replication.state.lease import Lease

log = Log(__name__)

# Lets the records start first: background queries wait for the first records, or for a while.
#
# Each streaming query costs CPU seconds to start. Beside the records' own query, those of
# heartbeats, checkpoints and metadata would make the first record wait for them.

LONGEST_SECONDS: Final = 30.0
"""The longest wait for a flow that cannot reach a cluster, or whose records another process has."""

IDLE_SECONDS: Final = 10.0
"""Within this time a query would have copied a first record; afterwards there seems to be none."""

HEAD_START_POLL_SECONDS: Final = 0.1


class HeadStart:
    """The head start of a process's flows. Threads may share it.

    Args:
        flows: Those whose records go first; without any it is over at once.
        longest_seconds: After which it is over in any case, from `begin` on.
        idle_seconds: After which a flow whose query has copied nothing ends it.
        is_standby: Whether it begins with the first flow that this process may replicate.
    """

    def __init__(
        self,
        flows: Collection[Flow] = (),
        longest_seconds: float = LONGEST_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        *,
        is_standby: bool = False,
    ) -> None:
        self.idle_seconds = idle_seconds
        self._flows = set(flows)
        self._longest_seconds = longest_seconds
        self._until = math.inf
        if not is_standby:
            self.begin()

    @property
    def is_over(self) -> bool:
        """Whether background queries may start."""
        return not self._flows or time.monotonic() >= self._until

    def begin(self) -> None:
        """Begins to count the seconds, unless that has begun: this process has a flow."""
        if self._until == math.inf:
            self._until = time.monotonic() + self._longest_seconds

    def end(self, flow: Flow) -> None:
        """Says that *flow* needs it no longer: its records are copied, or it has none now."""
        self._flows.discard(flow)

    def await_end(self, stop: Event) -> None:
        """Waits until it is over, or *stop* is set."""
        while not self.is_over and not stop.wait(HEAD_START_POLL_SECONDS):
            pass


POLL_SECONDS = 2.0
"""How long a failure may go unnoticed. A poll makes two JVM calls, for up to two queries a flow."""

PAUSES: Final = Backoff(first_seconds=1.0, longest_seconds=60.0)


class Supervised(threading.Thread):
    """Keeps one query running until *stop* is set.

    Args:
        name: The query's name in logs and in Spark's UI.
        spark: The session that runs it, once the head start is over.
        writer: Builds the query; may raise an error that a retry can resolve.
        stop: Ends the thread.
        lease: Held while the query runs; while another process holds it, this thread is a standby.
        before_stop: Ends a running batch, before the query is stopped for whatever reason.
        after_stop: Completes what the query left, while the lease is still held; may raise an error
            that a retry can resolve.
        head_start: What the first start of the query waits for; nothing by default.

    Attributes:
        poll_seconds: How long a failure, or the loss of the lease, may go unnoticed.
        broken: The internal error with which it ended; None for a clean end.
    """

    def __init__(
        self,
        name: str,
        spark: Session,
        writer: Callable[[], DataStreamWriter],
        stop: threading.Event,
        *,
        lease: Callable[[], AbstractContextManager[Lease | None]] = nullcontext,
        before_stop: Callable[[], None] = lambda: None,
        after_stop: Callable[[], None] = lambda: None,
        head_start: HeadStart | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._session = LateSession.of(spark)
        self._lease = lease
        self._writer = writer
        self._stop_event = stop
        self._before_stop = before_stop
        self._after_stop = after_stop
        self._head_start = head_start or HeadStart()
        self.poll_seconds = POLL_SECONDS
        self.broken: Exception | None = None

    def run(self) -> None:
        """Does the thread's work."""
        self._head_start.await_end(self._stop_event)
        failures = 0
        while not self._stop_event.is_set():
            failures += 1
            try:
                if self._run_once(self._session.get()):
                    failures = 1
            except (ReplicationError, PySparkException, Py4JError) as error:
                self._log_failure(error)
            except Exception as error:  # the thread's edge: nothing above would see it
                self.broken = error if self._stop_event.is_set() else None
                text = "internal error, please report it"
                log.exception("background_query_failed", query=self.name, text=text)
            self._stop_event.wait(PAUSES.after(failures))

    def _run_once(self, spark: SparkSession) -> bool:
        """Runs the query under its lease until it ends; returns whether it had made progress."""
        # a pool of its own, so that long tasks of a replication query cannot delay this one
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", "background")
        with (
            tempfile.TemporaryDirectory(
                prefix="replication-", dir=temporary_folder(spark), ignore_cleanup_errors=True
            ) as scratch,
            self._lease() as lease,
        ):
            if self._stop_event.is_set():
                return True  # while it waited for the lease
            # an empty folder, without the progress of earlier starts
            location = checkpoint_location(spark, Path(scratch))
            writer = self._writer().queryName(self.name)
            return self._watch(writer.option("checkpointLocation", location).start(), lease)

    def _watch(self, query: StreamingQuery, lease: Lease | None) -> bool:
        try:
            while not self._stop_event.wait(self.poll_seconds):
                if lease is not None:
                    lease.check()
                if not query.isActive:
                    self._log_failure(
                        error_of(query) or FlowError("the query ended without an error")
                    )
                    break
            return query.lastProgress is not None
        finally:
            self._before_stop()
            query.stop()
            if lease is None or lease.is_held:
                self._after_stop()

    def _log_failure(self, error: BaseException) -> None:
        # what Spark or Java says may have a record's content in it
        text = first_line(error) if isinstance(error, ReplicationError) else said(error)
        log.warning("background_query_failed", query=self.name, text=text)
