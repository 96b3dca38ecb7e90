"""A query beside the data: started, started again when it fails, stopped at the end.

Heartbeats and checkpoints never end the flow they belong to. A failure is said and tried again.
"""

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.errors import ReplicationError
from replication.state.lease import Lease

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60


class Supervised(threading.Thread):
    """Keeps one query running until `stop` is set.

    Args:
        name: Of the query, in logs and in Spark's UI.
        spark: Its session.
        writer: Makes the query ready to start; may raise what a retry can mend.
        stop: Ends it.
        lease: Must be had for the query to run; without it this thread stands by.
    """

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        writer: Callable[[], DataStreamWriter],
        stop: threading.Event,
        lease: Callable[[], AbstractContextManager[Lease | None]] = nullcontext,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._spark, self._lease = spark, lease
        self._writer, self._stop_event = writer, stop
        self._scratch = Path(tempfile.mkdtemp(prefix="replication-"))
        self._starts = 0

    def run(self) -> None:
        """The thread's work."""
        # a pool of its own: a data query of long tasks must not keep this one waiting
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "beside")
        pause = 1.0
        try:
            while not self._stop_event.is_set():
                try:
                    with self._lease() as lease:
                        pause = 1.0 if self._watch(self._start(), lease) else pause
                except (ReplicationError, PySparkException, Py4JError) as error:
                    self._say(error)
                self._stop_event.wait(pause)
                pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self) -> StreamingQuery:
        """Starts the query anew: its own progress is worth nothing after a failure."""
        self._starts += 1
        folder = self._scratch / str(self._starts)
        writer = self._writer().queryName(self.name)
        return writer.option("checkpointLocation", folder.as_uri()).start()

    def _watch(self, query: StreamingQuery, lease: Lease | None) -> bool:
        """Until the query ends or is to end; says whether it had done anything."""
        try:
            while not self._stop_event.wait(POLL_SECONDS):
                if lease is not None:
                    lease.renew()
                if not query.isActive:
                    self._say(query.exception() or RuntimeError("it ended by itself"))
                    break
            return query.lastProgress is not None
        finally:
            query.stop()

    def _say(self, error: BaseException) -> None:
        log.warning("%s failed and is started again: %s", self.name, first_lines(error))


def first_lines(error: BaseException) -> str:
    """What *error* says, without the page of Java frames behind it."""
    return "\n".join(str(error).strip().splitlines()[:3])
