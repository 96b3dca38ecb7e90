"""How a running job is told to end: signals where they arrive, files where they do not.

spark-submit passes no signal on to Python. ``spark-submit.sh`` therefore names a file in
``REPLICATION_STOP_FILE``, and anybody with access to the state directory may put one there.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from replication.errors import StateError
from replication.model import RECORDS, Flow, Job
from replication.state.tables import local_path

log = logging.getLogger(__name__)

STOP_FILE = "REPLICATION_STOP_FILE"
POLL_SECONDS = 1.0


def request_path(state_dir: str, flow: Flow, job: Job = "mirror") -> str:
    """The file that asks *flow* to stop. Its content does not matter; the job removes it."""
    name = f"stop-{flow.slug}" if job in RECORDS else f"stop-{flow.slug}-{job}"
    return f"{state_dir.rstrip('/')}/_control/{name}"


class StopRequests:
    """Looks for requests in the state directory and in ``REPLICATION_STOP_FILE``."""

    def __init__(
        self, spark: SparkSession, state_dir: str, flows: Collection[Flow], job: Job = "mirror"
    ) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's file systems
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._paths = {
            flow: jvm.org.apache.hadoop.fs.Path(request_path(state_dir, flow, job))
            for flow in flows
        }

    def clear(self) -> None:
        """Removes requests, answered or stale: a request is for the process that runs."""
        for path in self._paths.values():
            path.getFileSystem(self._conf).delete(path, False)

    def find(self) -> set[Flow]:
        """The flows that are asked to stop."""
        named = os.environ.get(STOP_FILE)
        if named and Path(named).exists():
            return set(self._paths)
        try:
            return {
                flow
                for flow, path in self._paths.items()
                if path.getFileSystem(self._conf).exists(path)
            }
        except Py4JError as error:
            log.warning("cannot look for stop requests: %s", str(error).splitlines()[0])
            return set()


def stop_on_signals(stops: Collection[threading.Event]) -> None:
    """Sets *stops* on SIGTERM and SIGINT, for a job that gets them itself."""

    def stop(number: int, _frame: object) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        for event in stops:
            event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def request_stop(
    state_dir: str, flows: Collection[Flow], timeout_seconds: float, job: Job = "mirror"
) -> None:
    """Asks *flows* of *job* to stop; returns when their process has ended and removed the requests.

    Raises:
        StateError: The state directory is not on this machine, or nobody answered in time.
    """
    paths = [request_path(state_dir, flow, job) for flow in flows]
    if local_path(state_dir) is None:
        commands = "; ".join(f"hadoop fs -touchz '{path}'" for path in paths)
        raise StateError(f"{state_dir} is not on this machine; put the request there: {commands}")
    files = [path for it in paths if (path := local_path(it)) is not None]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    deadline = time.monotonic() + timeout_seconds
    while any(file.exists() for file in files):
        if time.monotonic() > deadline:
            for file in files:
                file.unlink(missing_ok=True)
            raise StateError(f"no running job answered within {timeout_seconds:g} s")
        time.sleep(POLL_SECONDS / 4)
