"""MirrorMaker 2 as a dedicated process beside a test."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from replication.demo.brokers import LOG4J, BrokerSettings
from tests.support.local import Clusters, jars
from tests.support.running_process import RunningProcess

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
HEAP_MB = 256
# Every internal topic must fit a cluster of one broker.
ONE_BROKER = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
}


@contextlib.contextmanager
def mirror_maker_2(folder: Path, properties: Mapping[str, str]) -> Iterator[RunningProcess]:
    """Runs MirrorMaker 2, and stops it in order at the end of the ``with`` block.

    Args:
        folder: For its files and its log; no other program uses it.
        properties: What mm2.properties holds, on top of ``ONE_BROKER``.

    Yields:
        The process. Call its ``check()`` while waiting: it raises if MirrorMaker 2 has failed.

    Raises:
        ProcessError: The block failed; the text has the end of MirrorMaker 2's log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log4j, file = folder / "log4j2.properties", folder / "mm2.properties"
    log4j.write_text(LOG4J)
    write_properties(file, {**ONE_BROKER, **properties})
    java = BrokerSettings(jars=jars("mm2", override="MM2_JARS"), heap_mb=HEAP_MB)
    with RunningProcess("mm2", java.java(log4j, MAIN_CLASS, str(file)), folder / "log") as process:
        try:
            yield process
        except (Exception, pytest.fail.Exception) as error:
            raise process.failure("was running when its test failed") from error


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Writes a Java properties file."""
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))


def mm2_properties(clusters: Clusters, source: str, target: str) -> dict[str, str]:
    """Properties of one flow, whose topics and groups begin with the alias of the source.

    MirrorMaker 2 looks for changes every second.
    """
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": clusters[0].bootstrap,
        f"{target}.bootstrap.servers": clusters[1].bootstrap,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": f"{source}-.*",
        f"{source}->{target}.groups": f"{source}-.*",
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",  # other tests may have heartbeats on the source
        "emit.heartbeats.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",  # the brokers have no authorizer
        "offset.lag.max": "0",
        "offset.storage.partitions": "1",  # the default of 25 delays the start
        "status.storage.partitions": "1",
    }
