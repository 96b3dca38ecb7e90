"""Every job as a user starts it, through spark-submit.sh: all in one, and each part on its own."""

import os
import subprocess
import uuid
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from replication.config.keys import REPLICATION_FACTORS
from replication.demo.brokers import Broker
from replication.demo.mirror_process import MirrorProcess
from replication.demo.workload import create_topic, plain_records, sending
from replication.model import Committed, Flow, TopicPartition
from replication.state.tables import Tables
from tests.cluster.test_crash import QUICK_START, SCRIPT
from tests.cluster.test_heartbeats import heartbeats
from tests.group_tools import commit, committed

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(400)]

Clusters = tuple[Broker, Broker]
Until = Callable[[Callable[[], object], float], None]


def test_a_drain_moves_records_and_groups_and_the_other_jobs_go_on_alone(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, until: Until
) -> None:
    source, target = clusters
    flow = Flow(f"s{uuid.uuid4().hex[:6]}", f"t{uuid.uuid4().hex[:6]}")
    topic, group = f"{flow.source}-orders", f"{flow.source}-group"
    tp, remote = TopicPartition(topic, 0), TopicPartition(f"{flow.source}.{topic}", 0)
    create_topic(source.bootstrap, topic, 1)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic, islice(plain_records(1, size_bytes=9, now_ms=0), 100))
    config = write_config(tmp_path, clusters, flow, topic)
    commit(source, group, {tp: Committed(42)})

    drained = run(config, "--mode", "drain")
    moved = committed(target, group)
    beats = len(heartbeats(target, flow))
    commit(source, group, {tp: Committed(77)})
    checkpoints = MirrorProcess(
        SCRIPT, ["--config", str(config), "--job", "checkpoints", *QUICK_START], tmp_path / "log"
    )
    try:
        until(lambda: committed(target, group) == {remote: Committed(77)}, 120)
        stopped = replication("stop", config, "--job", "checkpoints")
    finally:
        checkpoints.discard()
    beaten = run(config, "--mode", "drain", "--job", "heartbeats")

    assert drained.returncode == beaten.returncode == 0, drained.stdout + beaten.stdout
    assert moved == {remote: Committed(42)}
    assert beats == 1
    assert len(heartbeats(target, flow)) == 2
    assert (stopped.returncode, stopped.stdout) == (0, f"{flow} stopped\n"), stopped.stderr
    checkpoints.stop()  # it had ended with exit code 0
    history = Tables(spark, (tmp_path / "state").as_uri()).read("checkpoints").collect()
    assert {(row.upstream, row.downstream, row.exact) for row in history} == {
        (42, 42, True),
        (77, 77, True),
    }


def write_config(folder: Path, clusters: Clusters, flow: Flow, topic: str) -> Path:
    source, target = clusters
    settings = {
        "clusters": [flow.source, flow.target],
        flow.source: {"bootstrap.servers": source.bootstrap},
        flow.target: {"bootstrap.servers": target.bootstrap},
        str(flow): {"enabled": True, "topics": [topic], "groups": [f"{flow.source}-.*"]},
        **dict.fromkeys(REPLICATION_FACTORS, 1),
        "heartbeats.replication.enabled": False,
        "sync.group.offsets.enabled": True,
        "state.dir": (folder / "state").as_uri(),
    }
    file = folder / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def run(config: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(SCRIPT), "--config", str(config), *arguments, *QUICK_START]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def replication(command: str, config: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    home = Path(os.environ.get("REPLICATION_HOME", SCRIPT.parent / ".local"))
    python = home / "venv" / "bin" / "python"
    return subprocess.run(
        [python, "-m", "replication", command, config, *arguments],
        cwd=SCRIPT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
