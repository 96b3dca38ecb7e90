"""A Spark standalone cluster on this machine, from PySpark's own classes: a master and workers."""

import json
import os
import secrets
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import IO, Any

import pyspark

from replication.demo.brokers import HOST, Watchdog, free_port
from replication.spark.class_archive import archive_options
from replication.spark.session import QUICK_COMPILER
from tests.support.process_tree import family, kill
from tests.support.waiting import wait_until

START_SECONDS = 60.0
SPARK_HOME = Path(pyspark.__file__).parent
CLASSES = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
SECRET = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": secrets.token_hex(32),
    "spark.network.crypto.enabled": "true",
}
"""Of master, workers and jobs, as conf/deploy/standalone/README.md says it."""

ENVIRONMENT = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": HOST,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -Dspark.master.rest.enabled=false "  # its port is fixed
    + " ".join(f"-D{key}={value}" for key, value in SECRET.items()),
}


EXECUTOR_MEMORY = "700m"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSize:
    """What each worker offers: task slots, and memory for executors of 700 MB."""

    cores: int
    memory: str = "1g"


class Worker:
    """One worker process and the executors that it has started."""

    def __init__(self, master: str, size: WorkerSize, folder: Path) -> None:
        port = free_port()
        self.page = f"http://{HOST}:{port}"
        self._daemon = _Daemon(
            "worker.Worker",
            folder,
            [
                *("--host", HOST, "--webui-port", str(port)),
                *("--cores", str(size.cores), "--memory", size.memory, "--work-dir", str(folder)),
                master,
            ],
        )

    def executors(self) -> list[int]:
        """Process ids of its executors."""
        return [pid for pid in family(self._daemon.pid) if _runs(pid, EXECUTOR)]

    def kill_executors(self) -> None:
        """SIGKILL for its executors; the worker lives on and starts others."""
        kill(self.executors())

    def kill(self) -> None:
        """SIGKILL for the worker alone: its executors notice and end by themselves."""
        self._daemon.kill()

    def kill_all(self) -> None:
        """SIGKILL for the worker and its executors at once."""
        executors = self.executors()
        self.kill()
        kill(executors)


@dataclass(slots=True)
class Standalone:
    """A running master and its workers. ``url`` is what spark-submit takes as ``--master``."""

    url: str
    folder: Path
    size: WorkerSize
    workers: list[Worker]
    _ui: str
    _started: int = 0

    def job_arguments(
        self,
        slots: int | None = None,
        *,
        compiler: str = QUICK_COMPILER,
        memory: str = EXECUTOR_MEMORY,
    ) -> list[str]:
        """Arguments of spark-submit for a job of so many task slots; by default it takes all.

        The environment variable MASTER would refuse a local state directory.

        Args:
            slots: Of all executors together.
            compiler: Options of the JVMs' compilers. The default starts quickly and copies slowly.
            memory: Heap of each executor.
        """
        class_path, java_options = archive_options()
        settings = {
            "spark.driver.defaultJavaOptions": compiler,
            "spark.executor.extraClassPath": class_path,
            "spark.executor.extraJavaOptions": f"{compiler} {java_options}",
            "spark.executor.memory": memory,
            **SECRET,
            "spark.io.encryption.enabled": "true",
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.cores.max": str(slots or len(self.workers) * self.size.cores),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }
        pairs = [("--conf", f"{key}={value}") for key, value in settings.items()]
        return [word for pair in pairs for word in pair] + ["--master", self.url]

    def add_worker(self) -> Worker:
        """Starts another worker and waits until the master knows it."""
        self._started += 1
        worker = Worker(self.url, self.size, self.folder / f"worker-{self._started}")
        self.workers.append(worker)
        wait_until(lambda: worker.page in self._living_workers(), START_SECONDS)
        return worker

    def stop(self) -> None:
        """Ends all workers with their executors."""
        for worker in self.workers:
            worker.kill_all()

    def is_running(self) -> bool:
        """Whether the master answers."""
        return self._state() is not None

    def _living_workers(self) -> set[str]:
        """The pages of the workers that the master takes for living."""
        workers = (self._state() or {"workers": []})["workers"]
        return {worker["webuiaddress"] for worker in workers if worker["state"] == "ALIVE"}

    def _state(self) -> dict[str, Any] | None:
        # until the master is ready it does not answer, or not with JSON
        with (
            suppress(OSError, JSONDecodeError),
            urllib.request.urlopen(self._ui, timeout=5) as page,  # noqa: S310
        ):
            return dict(json.load(page))
        return None


@contextmanager
def standalone(folder: Path, *, workers: int, size: WorkerSize) -> Iterator[Standalone]:
    """A cluster for the block. It ends with this process, however that one ends."""
    folder.mkdir(parents=True, exist_ok=True)
    port, ui = free_port(), free_port()
    arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(ui)]
    master = _Daemon("master.Master", folder / "master", arguments)
    cluster = Standalone(f"spark://{HOST}:{port}", folder, size, [], f"http://{HOST}:{ui}/json/")
    try:
        wait_until(cluster.is_running, START_SECONDS)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()
        master.kill()


class _Daemon:
    """A JVM of Spark's own, without its shell scripts that would put it into the background."""

    def __init__(self, name: str, folder: Path, arguments: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log: IO[bytes] = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"{CLASSES}.{name}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )
        self._watchdog = Watchdog(self._process.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._watchdog.dismiss()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()


def _runs(pid: int, name: str) -> bool:
    with suppress(OSError):
        return name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
