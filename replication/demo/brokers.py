"""Real Kafka brokers (KRaft) as child processes, for the demo and the tests. Not for production.

A broker ends with the process that started it, however that process ends.
"""

import base64
import contextlib
import importlib.util
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from replication.config.home import SERIAL, collector
from replication.errors import ClusterError, SetupError

HOST = "127.0.0.1"
# Below the ephemeral range: the kernel would otherwise sooner or later assign a stopped broker's
# port to a client that keeps connecting to it, and the client would connect to itself.
PORTS = range(10_000, 32_000)
_returned: set[int] = set()  # a broker asks for all its ports before it listens at the first


def free_port() -> int:
    """Returns a port that is free now, each once; another process may still take it first."""
    tried = (port for port in random.sample(PORTS, 100) if port not in _returned)
    free = next((port for port in tried if is_free(port)), None)
    if free is None:
        raise SetupError(
            f"no free port on {HOST}: 100 ports between {PORTS.start} and {PORTS.stop} were tried; "
            "check what listens there (ss -ltn)"
        )
    _returned.add(free)
    return free


def is_free(port: int) -> bool:
    """Returns whether a broker could listen on *port*."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


LOG_LINES = 30


def start_child(
    command: Sequence[str], output: IO[bytes], cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Starts *command* with all its output in *output*.

    It has a session of its own: Ctrl-C must reach only this process, which stops it cleanly.
    """
    return subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        cwd=cwd,
        start_new_session=True,
    )


def log_end(log: Path) -> str:
    """Returns the name of *log* and its last lines, for an error."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
    return f"see {log}, which ends with:\n  " + "\n  ".join(lines or ["(nothing)"])


# Ends a child process when this process ends, even by kill -9.
#
# Linux's PR_SET_PDEATHSIG needs no third process, but fires when the *thread* that started the
# child ends.


class Watchdog:
    """A shell that waits for the end of a pipe that only this process holds, then signals *pid*.

    Dismiss it before the watched process is reaped, because another process may get its id.
    """

    def __init__(self, pid: int, number: signal.Signals) -> None:
        script = f'read _; kill -{int(number)} "$1"'
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            ["/bin/sh", "-c", script, "watchdog", str(pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # else Ctrl-C would end the watchdog before the watched process
        )

    def dismiss(self) -> None:
        """Ends the watchdog without signalling the watched process."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


START_ATTEMPTS = 5
START_TIMEOUT_SECONDS = 240.0  # a shared machine may take minutes
STOP_TIMEOUT_SECONDS = 30.0
# The first compiler tier and the serial collector start in 3.2 s instead of 4.1 s on two cores.
QUICK_START = ("-XX:TieredStopAtLevel=1", *collector(SERIAL, os.environ))

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.ms": "-1",  # or records with old timestamps would be deleted
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller rejects the new process until the old session expires.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "0",  # else an idle controller writes twice a second
    "log.cleaner.dedupe.buffer.size": "8388608",  # Kafka's default takes 128 MB of a small heap
}
# Compacts the closed segments of a topic immediately.
QUICK_COMPACTION = {"log.cleaner.backoff.ms": "100"}

LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Settings shared by all brokers.

    Args:
        jars: Folder with Kafka's jars (conf/jars.xml, configuration ``kafka``).
        heap_mb: Heap of each broker in MiB.
        jvm_options: Further options of the JVM.
        properties: Broker properties on top of ``DEFAULTS``.
    """

    jars: Path
    heap_mb: int = 384
    jvm_options: tuple[str, ...] = QUICK_START
    properties: Mapping[str, str] = field(default_factory=dict)

    def java(self, log4j: Path, *arguments: str) -> list[str]:
        """Returns the command that runs one of Kafka's classes."""
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        class_path = ":".join([*map(str, _logging_jars()), f"{self.jars}/*"])
        logging = f"-Dlog4j2.configurationFile={log4j}"
        return [
            java,
            f"-Xmx{self.heap_mb}m",
            *self.jvm_options,
            logging,
            "-cp",
            class_path,
            *arguments,
        ]


class Broker:
    """A cluster of one broker, on a loopback port that it keeps across restarts.

    Args:
        alias: The cluster's name, for errors.
        folder: For data, settings and ``broker.log``; created if missing.
        settings: Jars, heap, properties.
        ports: Returns a port to try.
    """

    def __init__(
        self,
        alias: str,
        folder: Path,
        settings: BrokerSettings,
        *,
        ports: Callable[[], int] = free_port,
    ) -> None:
        self.alias = alias
        self.folder = folder
        self.log = folder / "broker.log"
        # starts with a letter, because the format tool takes a leading dash for an option
        self.cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self._settings = settings
        self._free_port = ports
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` of this cluster, known once it has been started."""
        if self._ports is None:
            raise ClusterError(f"cluster {self.alias}: has no port yet; call start() first")
        return f"{HOST}:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        """The process id; None before start() and after stop()."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the process is running; the broker may not answer yet."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the broker and returns once it answers; a restart keeps port and data.

        Raises:
            ClusterError: The broker does not start; the text shows the end of its log.
        """
        if self.is_running:
            return
        keeps_port = self._ports is not None
        for attempt in range(START_ATTEMPTS):
            self._ports = self._ports or (self._free_port(), self._free_port())
            self._launch()
            if self._answers():
                return
            taken = [port for port in self._ports if not is_free(port)]
            if keeps_port or not taken or attempt == START_ATTEMPTS - 1:
                break
            self._end(signal.SIGKILL)
            self._ports = None  # another process took the ports: try others
        raise self._failure("did not start", f"ports {self._ports}")

    def stop(self) -> None:
        """Stops the broker cleanly (SIGTERM) and waits for its end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stops the broker as a power cut would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops and starts the broker."""
        self.stop()
        self.start()

    def move(self, port: int) -> None:
        """Stops the broker, and starts it with the same data at another *port*."""
        self.stop()
        self._ports = port, self._free_port()
        self.start()

    def _launch(self) -> None:
        log4j = self._write_settings()
        server = str(self.folder / "server.properties")
        with self.log.open("ab") as log:
            if not (self.folder / "data").exists():
                tool = ("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", server)
                if self._run(self._settings.java(log4j, *tool), log).wait() != 0:
                    raise self._failure("could not format its data folder", str(self.folder))
            self._process = self._run(self._settings.java(log4j, "kafka.Kafka", server), log)
        self._watchdog = Watchdog(self._process.pid, signal.SIGKILL)

    def _write_settings(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        port, controller = self._ports or (0, 0)
        listener = f"PLAINTEXT://{HOST}:{port}"
        properties = {
            **DEFAULTS,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": f"{listener},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": listener,
            "log.dirs": str(self.folder / "data"),
            **self._settings.properties,
        }
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.folder / "server.properties").write_text(lines)
        log4j = self.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        return log4j

    def _run(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return start_child(command, log)
        except FileNotFoundError as error:
            raise ClusterError(
                f"cluster {self.alias}: cannot run {command[0]!r}: {error.strerror}; "
                "install Java 17 and put it on PATH or in JAVA_HOME"
            ) from error

    def _answers(self) -> bool:
        """Waits until the broker is in its cluster's metadata; False if its process ends."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **quiet})
        while self.is_running and time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):  # not ready yet; the loop has the deadline
                metadata = admin.list_topics(timeout=0.5)
                # Another broker may have taken the port and may answer instead.
                if metadata.brokers and metadata.cluster_id == self.cluster_id:
                    return True
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._watchdog is not None:
            self._watchdog.dismiss()
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._watchdog = self._process = None

    def _failure(self, what: str, value: str) -> ClusterError:
        ended = "is running" if self.is_running else "ended"
        if self._process is not None and self._process.returncode is not None:
            ended += f" with exit code {self._process.returncode}"
        self._end(signal.SIGKILL)
        return ClusterError(
            f"cluster {self.alias}: the broker {what} ({value}; its process {ended}); "
            f"{log_end(self.log)}"
        )


@contextlib.contextmanager
def two_clusters(
    folder: Path, settings: BrokerSettings, *, aliases: tuple[str, str] = ("A", "B")
) -> Iterator[tuple[Broker, Broker]]:
    """Yields two running clusters, started in parallel, each in its subfolder of *folder*."""
    first, second = (Broker(alias, folder / alias, settings) for alias in aliases)
    with running(first, second):
        yield first, second


@contextlib.contextmanager
def running(*brokers: Broker) -> Iterator[None]:
    """Starts the brokers in parallel, and stops them at the end of the block."""
    try:
        _together(*(broker.start for broker in brokers))
        yield
    finally:
        _together(*(broker.stop for broker in brokers))


def _together(*calls: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def _logging_jars() -> list[Path]:
    """Makes a log4j2 binding for Kafka's SLF4J: PySpark ships one, the Kafka artifacts do not.

    Without PySpark the broker still runs, with an empty log.
    """
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return []
    jars = Path(pyspark.origin).parent / "jars"
    names = ("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl")
    return [jar for name in names for jar in sorted(jars.glob(f"{name}-[0-9]*.jar"))]
