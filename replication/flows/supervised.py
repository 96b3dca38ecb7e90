"""Keeps a background query running: restarts it on failure, stops it on request.

A failing heartbeat or checkpoint query never stops replication.
"""

import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.backoff import Backoff
from replication.errors import FlowError, ReplicationError, first_line
from replication.flows.head_start import HeadStart
from replication.log import Log
from replication.spark.causes import error_of, said
from replication.spark.checkpoint import checkpoint_location, temporary_folder
from replication.spark.late import LateSession, Session
from replication.state.lease import Lease

log = Log(__name__)

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
        """Waits until the query ends or must stop; returns whether it had made progress."""
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
