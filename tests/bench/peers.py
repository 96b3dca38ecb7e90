"""The contenders, each started as its users start it: this mirror's modes, and MirrorMaker 2."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from replication.demo.brokers import LOG4J, BrokerSettings
from replication.demo.watchdog import Watchdog
from tests.bench.usage import family

Mode = Literal["realtime", "microbatch", "drain"]

REPOSITORY = Path(__file__).resolve().parents[2]
STOP_TIMEOUT_SECONDS = 75.0  # spark-submit.sh gives its job 60 s
LOG_LINES = 30
TARGET = "target"
HEAP_MB = 2048  # spark-submit.sh's default for the driver

# What Kafka's own connect-mirror-maker.sh gives the JVM.
MM2_JVM = (
    "-Xms256m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# As large as this mirror's own fetches and batches; with MM2's defaults it is slower.
MM2_TUNING = {
    "tasks.max": "2",
    "{target}.producer.batch.size": "131072",
    "{target}.producer.linger.ms": "5",
    "{source}.consumer.max.poll.records": "2000",
    "{source}.consumer.max.partition.fetch.bytes": "1048576",
    "emit.checkpoints.interval.seconds": "5",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "{target}->{source}.enabled": "false",
}


class PeerError(Exception):
    """A contender failed; the text has the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What a contender is to copy. Its files go to ``folder``, which is its own."""

    folder: Path
    source: str
    source_bootstrap: str
    target_bootstrap: str
    topic: str

    @property
    def remote_topic(self) -> str:
        """The copy: an alias of the source of its own keeps every contender's apart."""
        return f"{self.source}.{self.topic}"

    def write(self, settings: Mapping[str, str]) -> str:
        """Writes mm2.properties and returns its path; both contenders read the same form."""
        flow = f"{self.source}->{TARGET}"
        properties = {
            "clusters": f"{self.source}, {TARGET}",
            f"{self.source}.bootstrap.servers": self.source_bootstrap,
            f"{TARGET}.bootstrap.servers": self.target_bootstrap,
            f"{flow}.enabled": "true",
            f"{flow}.topics": self.topic,
            "replication.factor": "1",
            f"{TARGET}->{self.source}.emit.heartbeats.enabled": "false",
            **{
                key: MM2_TUNING[key]
                for key in MM2_TUNING
                if key.endswith(".topic.replication.factor")
            },
            **{self._named(key): value for key, value in settings.items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        return str(file)

    def _named(self, key: str) -> str:
        return key.replace("{source}", self.source).replace("{target}", TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """This project, in one mode.

    Args:
        mode: ``replication.mode``.
        settings: Further lines of the configuration; ``{source}`` stands for the alias.
        spark: Further arguments of spark-submit.
    """

    mode: Mode
    settings: Mapping[str, str]
    spark: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The mode."""
        return self.mode

    def command(self, race: Race) -> list[str]:
        """As a user would start it."""
        state_dir = (race.folder / "state").as_uri()
        file = race.write({"state.dir": state_dir, **self.settings})
        script = str(REPOSITORY / "spark-submit.sh")
        return [script, "--config", file, "--mode", self.mode, "--", *self.spark]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMaker2:
    """MirrorMaker 2 as a dedicated process.

    Args:
        jars: Folder with the jars of conf/jars.xml, configuration ``mm2``.
        settings: Further lines of the configuration.
    """

    jars: Path
    settings: Mapping[str, str]
    name: str = "mm2"

    def command(self, race: Race) -> list[str]:
        """Plain Java, with a log of warnings only."""
        file = race.write({**MM2_TUNING, **self.settings})
        log4j = race.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        java = BrokerSettings(jars=self.jars, heap_mb=HEAP_MB, jvm_options=MM2_JVM)
        return java.java(log4j, "org.apache.kafka.connect.mirror.MirrorMaker", file)


Contender = Mirror | MirrorMaker2


class Running:
    """A contender at work: ends, with all its processes, at the end of the ``with`` block."""

    def __init__(self, contender: Contender, race: Race) -> None:
        self.name = contender.name
        self._log = race.folder / "log"
        command = contender.command(race)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                cwd=REPOSITORY,
                start_new_session=True,  # Ctrl-C is for us, who stop it in order
            )
        self._watchdog = Watchdog(self._process.pid, signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The root of its process tree."""
        return self._process.pid

    def check(self) -> None:
        """Raises PeerError if it has failed; a drain may have ended well."""
        if self._process.poll():
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def failure(self, what: str) -> PeerError:
        """An error that says *what* and shows the end of the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        tail = "\n  ".join(lines or ["(nothing)"])
        return PeerError(f"{self.name} {what}; {self._log} ends with:\n  {tail}")

    def __enter__(self) -> "Running":  # noqa: PYI034 - typing has Self from 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.dismiss()
        tree = family(self.pid)
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_SECONDS)
        for pid in tree:  # nothing is left of it, unless something went wrong
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
