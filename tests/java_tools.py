"""Kafka's and MirrorMaker 2's own Java programs, as judges of what this project writes.

Each call but `mirror_maker_2` starts a JVM and waits for its end, which takes seconds.
"""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from replication.demo.brokers import LOG4J, BrokerSettings
from tests.bench.peers import MM2_TUNING, MirrorMaker2, Race, Running
from tests.conftest import REPOSITORY, jars

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TIMEOUT_SECONDS = 90  # on a busy machine
SILENCE_MS = 10_000  # after which a console consumer takes a topic for read
HEAP_MB = 256
# Of the benchmark's settings, those that a cluster of one broker cannot do without.
ONE_BROKER = {
    "replication.factor": "1",
    **{key: value for key, value in MM2_TUNING.items() if key.endswith("replication.factor")},
}

Formatter = Literal["OffsetSync", "Checkpoint", "Heartbeat"]


class JavaToolError(Exception):
    """A program failed; the text has all it said."""


def mirror_client(
    bootstrap: str, source_alias: str, group: str, policy: str = DEFAULT_POLICY
) -> dict[str, Any]:
    """What MirrorClient and RemoteClusterUtils say of a target cluster.

    Args:
        bootstrap: The target's ``bootstrap.servers``.
        source_alias: The cluster whose topics, hops and checkpoints are asked for.
        group: Whose offsets are translated. ASCII only, as it travels on a command line.
        policy: The policy's class; its separators are the default ones.

    Returns:
        Answers under the methods' names: ``upstreamClusters``, ``remoteTopics``,
        ``remoteTopics(source)``, ``heartbeatTopics`` and ``checkpointTopics`` are sorted lists,
        ``replicationHops`` is -1 for a cluster out of reach, ``translateOffsets`` has
        ``{"topic-partition": [offset, metadata]}`` and ``translateOffsets(pattern)`` the same
        for every group there is, under the group's name. The last two are absent where the
        source has no checkpoints topic.
    """
    probe = str(REPOSITORY / "tests" / "java" / "MirrorClientProbe.java")
    answers = _run(probe, bootstrap, source_alias, policy, group)
    return cast("dict[str, Any]", json.loads(answers))


def console_lines(bootstrap: str, topic: str, formatter: Formatter, wanted: int) -> list[str]:
    """The first *wanted* records of *topic*'s partition 0, as MirrorMaker 2's formatter shows them.

    Fewer where the topic has fewer, but only after ``SILENCE_MS``.
    """
    lines = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap),
        *("--topic", topic),
        # A partition instead of --from-beginning: no group has to be joined, and none is left.
        *("--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(wanted)),
        *("--timeout-ms", str(SILENCE_MS)),
        *("--formatter", f"org.apache.kafka.connect.mirror.formatters.{formatter}Formatter"),
    )
    return lines.splitlines()


def reset_offsets(bootstrap: str, csv: Path, group: str, *, execute: bool = True) -> str:
    """Sets an idle group's offsets by ``kafka-consumer-groups --reset-offsets --from-file``.

    Args:
        bootstrap: ``bootstrap.servers`` of the group's cluster.
        csv: Lines ``group,topic,partition,offset``, or without the group.
        group: The one group to set.
        execute: Do it; otherwise only tell (``--dry-run``).

    Returns:
        What the tool printed: a table of the new offsets.

    Raises:
        JavaToolError: It refused, for example because the group has members.
    """
    said = _run(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", bootstrap),
        *("--reset-offsets", "--from-file", str(csv)),
        *("--group", group),
        "--execute" if execute else "--dry-run",
    )
    if "Error: " in said:  # its exit code is 0 all the same
        raise JavaToolError(said)
    return said


@contextlib.contextmanager
def mirror_maker_2(folder: Path, properties: Mapping[str, str]) -> Iterator[Running]:
    """MirrorMaker 2 as a dedicated process, ended in order with the ``with`` block.

    Args:
        folder: For its files and its log; its own.
        properties: What mm2.properties holds, on top of ``ONE_BROKER``.

    Yields:
        The process. Call its ``check()`` while waiting: it raises if MirrorMaker 2 has ended.

    Raises:
        PeerError: The block failed; the text has the end of MirrorMaker 2's log.
    """
    # Of the race, only the folder counts: the properties name the clusters.
    race = Race(folder=folder, source="", source_bootstrap="", target_bootstrap="", topic="")
    with Running(_Dedicated(jars=_mm2_jars(), settings=properties), race) as running:
        try:
            yield running
        except (Exception, pytest.fail.Exception) as error:
            raise running.failure("was running when its test failed") from error


class _Dedicated(MirrorMaker2):
    """With the properties given, none of the benchmark's, in a JVM that starts quickly."""

    def command(self, race: Race) -> list[str]:
        race.folder.mkdir(parents=True, exist_ok=True)
        log4j, file = race.folder / "log4j2.properties", race.folder / "mm2.properties"
        log4j.write_text(LOG4J)
        lines = {**ONE_BROKER, **self.settings}.items()
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines))
        java = BrokerSettings(jars=self.jars, heap_mb=HEAP_MB)
        return java.java(log4j, "org.apache.kafka.connect.mirror.MirrorMaker", str(file))


def _mm2_jars() -> Path:
    return jars("mm2", override="MM2_JARS")


def _run(*arguments: str) -> str:
    """What a Java program prints. It sees Kafka's tools and MirrorMaker 2's classes."""
    with tempfile.TemporaryDirectory() as name:
        both = Path(name, "jars")
        both.mkdir()
        found = (jar for jars_of in (_kafka_jars(), _mm2_jars()) for jar in jars_of.glob("*.jar"))
        for jar_name, jar in {jar.name: jar for jar in found}.items():
            (both / jar_name).symlink_to(jar.resolve())
        log4j = Path(name, "log4j2.properties")
        log4j.write_text(f"{LOG4J}appender.out.target = SYSTEM_ERR\n")  # stdout has the answer
        command = BrokerSettings(jars=both, heap_mb=HEAP_MB).java(log4j, *arguments)
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    if done.returncode:
        raise JavaToolError(
            f"{arguments[0]} ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def _kafka_jars() -> Path:
    return jars("kafka", override="KAFKA_JARS")
