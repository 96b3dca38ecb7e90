"""The contenders: the modes of this mirror and MirrorMaker 2, each started as a user starts it.

Beside them stands a copy that does nothing but read and write, the least that Kafka's clients take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from replication.demo.brokers import LOG4J, BrokerSettings
from tests.support.local import REPOSITORY
from tests.support.mirror_maker_2 import MAIN_CLASS, ONE_BROKER, write_properties
from tests.support.running_process import RunningProcess

Mode = Literal["realtime", "microbatch", "drain"]
MODES: tuple[Mode, ...] = get_args(Mode)

TARGET = "target"
HEAP_MB = 2048  # spark-submit.sh's default for the driver

# The JVM options of Kafka's own connect-mirror-maker.sh, unless KAFKA_JVM_PERFORMANCE_OPTS is set.
MM2_JVM = (
    "-Xms256m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# The fetches, batches and socket buffers of this mirror. MM2 is slower with its defaults.
MM2_TUNING = {
    "tasks.max": "2",
    "{target}.producer.batch.size": "262144",
    "{target}.producer.linger.ms": "5",
    "{source}.consumer.max.poll.records": "2000",
    "{source}.consumer.max.partition.fetch.bytes": "1048576",
    "{target}.producer.send.buffer.bytes": "-1",
    "{source}.consumer.receive.buffer.bytes": "-1",
    "emit.checkpoints.interval.seconds": "5",
    **ONE_BROKER,
    "{target}->{source}.enabled": "false",
}
# The same sizes, and the guarantees of both: in order, and acknowledged by all replicas.
PLAIN_COPY = {
    "threads": "2",
    "producer.batch.size": "262144",
    "producer.linger.ms": "5",
    "producer.acks": "all",
    "producer.send.buffer.bytes": "-1",
    "consumer.receive.buffer.bytes": "-1",
    "consumer.max.poll.records": "2000",
    "consumer.max.partition.fetch.bytes": "1048576",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What a contender copies. Its files go to ``folder``, which no other contender uses."""

    folder: Path
    source: str
    source_bootstrap: str
    target_bootstrap: str
    topic: str

    @property
    def remote_topic(self) -> str:
        """The copy. Each contender has its own alias of the source, and so its own copy."""
        return f"{self.source}.{self.topic}"

    def write(self, settings: Mapping[str, str]) -> str:
        """Writes mm2.properties, which all contenders can read, and returns its path."""
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
        write_properties(file, properties)
        return str(file)

    def _named(self, key: str) -> str:
        return key.replace("{source}", self.source).replace("{target}", TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """This project, in one mode.

    Args:
        mode: ``replication.mode``.
        settings: Further lines of the configuration; ``{source}`` stands for the alias.
        arguments: Further arguments of spark-submit.sh.
        spark: Further arguments of spark-submit.
        label: The name in the tables, if it is not the mode.
    """

    mode: Mode
    settings: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    spark: tuple[str, ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        """The name in the tables."""
        return self.label or self.mode

    def command(self, race: Race) -> list[str]:
        """The command as a user types it."""
        state_dir = (race.folder / "state").as_uri()
        file = race.write({"state.dir": state_dir, **self.settings})
        script = str(REPOSITORY / "spark-submit.sh")
        options = ("--mode", self.mode, *self.arguments)
        return [script, "--config", file, *options, "--", *self.spark]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMaker2:
    """MirrorMaker 2 as a dedicated process.

    Args:
        jars: Folder with the jars of conf/jars.xml, configuration ``mm2``.
        settings: Further lines of the configuration.
        jvm: Options of the JVM.
    """

    jars: Path
    settings: Mapping[str, str]
    name: str = "mm2"
    jvm: tuple[str, ...] = MM2_JVM

    def command(self, race: Race) -> list[str]:
        """Plain Java. Only warnings are logged."""
        file = race.write({**MM2_TUNING, **self.settings})
        log4j = race.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        java = BrokerSettings(jars=self.jars, heap_mb=HEAP_MB, jvm_options=self.jvm)
        return java.java(log4j, MAIN_CLASS, file)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCopy:
    """Kafka's Java clients alone, in ``tests/java/PlainCopy.java``: no copy can take less CPU.

    Args:
        jars: As for MirrorMaker 2; the clients are in it.
        settings: ``threads``, each with a consumer of its own (2), and client properties after
            ``consumer.`` and ``producer.``.
        jvm: Options of the JVM.
    """

    jars: Path
    settings: Mapping[str, str]
    name: str = "clients"
    jvm: tuple[str, ...] = MM2_JVM

    def command(self, race: Race) -> list[str]:
        """Plain Java."""
        race.folder.mkdir(parents=True, exist_ok=True)
        log4j = race.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        settings = {**PLAIN_COPY, **self.settings}
        threads = settings.pop("threads")
        java = BrokerSettings(jars=self.jars, heap_mb=HEAP_MB, jvm_options=self.jvm)
        return java.java(
            log4j,
            str(REPOSITORY / "tests" / "java" / "PlainCopy.java"),
            *(race.source_bootstrap, race.target_bootstrap, race.topic, race.remote_topic, threads),
            *(f"{key}={value}" for key, value in settings.items()),
        )


Contender = Mirror | MirrorMaker2 | PlainCopy


def in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """The order of round *number*, which begins with 1: every second one is reversed."""
    return list(contenders if number % 2 else reversed(contenders))


def running(contender: Contender, race: Race) -> RunningProcess:
    """The contender at work; it ends with all its processes at the end of the ``with`` block."""
    command = contender.command(race)  # also creates the folder
    return RunningProcess(contender.name, command, race.folder / "log")
