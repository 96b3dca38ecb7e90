"""Kafka's and MirrorMaker 2's own Java programs, which judge what this project writes.

Each call starts a JVM and waits for its end, which takes seconds.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Literal, cast

from replication.demo.brokers import LOG4J, BrokerSettings
from tests.support.local import REPOSITORY, jars

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

TIMEOUT_SECONDS = 180
SILENCE_MS = 10_000  # a console consumer that gets no record for so long ends
HEAP_MB = 256

Formatter = Literal["OffsetSync", "Checkpoint", "Heartbeat"]


class JavaToolError(Exception):
    """A program failed; the text has all its output."""


def mirror_client(
    bootstrap: str, source_alias: str, group: str, policy: str = DEFAULT_POLICY
) -> dict[str, Any]:
    """The answers of MirrorClient and RemoteClusterUtils about a target cluster.

    Args:
        bootstrap: The target's ``bootstrap.servers``.
        source_alias: The cluster whose topics, hops and checkpoints are read.
        group: The group whose offsets are translated. ASCII only: it is a command line argument.
        policy: The class of the policy; its separators are the default ones.

    Returns:
        Answers under the methods' names: ``upstreamClusters``, ``remoteTopics``,
        ``remoteTopics(source)``, ``heartbeatTopics`` and ``checkpointTopics`` are sorted lists,
        ``replicationHops`` is -1 for a cluster without heartbeats, ``translateOffsets`` has
        ``{"topic-partition": [offset, metadata]}`` and ``translateOffsets(pattern)`` the same
        for every group, under the name of the group. The last two are absent if the source has
        no checkpoints topic.
    """
    probe = str(REPOSITORY / "tests" / "java" / "MirrorClientProbe.java")
    answers = _run(probe, bootstrap, source_alias, policy, group)
    return cast("dict[str, Any]", json.loads(answers))


def console_lines(bootstrap: str, topic: str, formatter: Formatter, wanted: int) -> list[str]:
    """The first *wanted* records of *topic*'s partition 0, as MirrorMaker 2's formatter shows them.

    Returns fewer if the topic has fewer, but only after ``SILENCE_MS``.
    """
    lines = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap),
        *("--topic", topic),
        # With a partition instead of --from-beginning the consumer joins no group.
        *("--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(wanted)),
        *("--timeout-ms", str(SILENCE_MS)),
        *("--formatter", f"org.apache.kafka.connect.mirror.formatters.{formatter}Formatter"),
    )
    return lines.splitlines()


def status_store(bootstrap: str, topic: str, connector: str) -> dict[str, Any]:
    """What Kafka Connect's own store reads of *connector* in a status topic.

    Returns:
        ``connectors`` and ``topics``, sorted, ``tasks``, their number, and of the connector
        ``state``, ``worker``, ``generation`` and ``trace``.

    Raises:
        JavaToolError: It failed, or has warned of a record.
    """
    probe = str(REPOSITORY / "tests" / "java" / "StatusStoreProbe.java")
    done = _done(probe, bootstrap, topic, connector)
    if "KafkaStatusBackingStore" in done.stderr:
        raise JavaToolError(done.stderr)
    return cast("dict[str, Any]", json.loads(done.stdout))


def reset_offsets(bootstrap: str, csv: Path, group: str, *, execute: bool = True) -> str:
    """Sets an idle group's offsets by ``kafka-consumer-groups --reset-offsets --from-file``.

    Args:
        bootstrap: ``bootstrap.servers`` of the group's cluster.
        csv: Lines ``group,topic,partition,offset``, or without the group.
        group: The one group to set.
        execute: Commit the offsets; otherwise only show them (``--dry-run``).

    Returns:
        The output of the tool: a table of the new offsets.

    Raises:
        JavaToolError: The tool failed, for example because the group has members.
    """
    output = _run(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", bootstrap),
        *("--reset-offsets", "--from-file", str(csv)),
        *("--group", group),
        "--execute" if execute else "--dry-run",
    )
    if "Error: " in output:  # the exit code is 0 nevertheless
        raise JavaToolError(output)
    return output


def share_group(bootstrap: str, topic: str, group: str) -> None:
    """Makes a share group: a consumer of it joins, finds nothing, and leaves."""
    _run(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--timeout-ms", "3000"),
    )


def _mm2_jars() -> Path:
    return jars("mm2", override="MM2_JARS")


def _run(*arguments: str) -> str:
    """The output of a Java program that needs Kafka's tools and MirrorMaker 2's classes."""
    return _done(*arguments).stdout


def _done(*arguments: str) -> subprocess.CompletedProcess[str]:
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
    return done


def _kafka_jars() -> Path:
    return jars("kafka", override="KAFKA_JARS")
