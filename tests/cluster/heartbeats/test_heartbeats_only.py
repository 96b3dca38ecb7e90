"""A file without an enabled flow: the job emits the heartbeats of all pairs, as MirrorMaker 2."""

import re
from pathlib import Path

import pytest

from replication.demo.brokers import Broker
from replication.model import Flow
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.internal_topics import heartbeats
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import paused
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job, pytest.mark.timeout(600)]

WAIT_SECONDS = 90.0
WARNING = "no flow is enabled: only heartbeats are emitted"


def beats(clusters: Clusters, flow: Flow) -> list[int]:
    """How many heartbeats both directions have."""
    reverse = Flow(flow.target, flow.source)
    return [len(heartbeats(clusters[1], flow)), len(heartbeats(clusters[0], reverse))]


def test_a_file_without_a_flow_emits_heartbeats(clusters: Clusters, tmp_path: Path) -> None:
    flow = unique_flow()
    config = write_config(tmp_path, clusters, "", {str(flow): {"enabled": False}}, flow)

    drain = spark_submit(config, "--mode", "drain")
    after_drain = beats(clusters, flow)
    job = start_mirror(config, tmp_path / "log")
    try:
        wait_until(lambda: min(beats(clusters, flow)) >= 3, WAIT_SECONDS)
        second = spark_submit(config)
        stop = replication("stop", config)
    finally:
        job.discard()

    assert drain.returncode == 0, drain.stdout + drain.stderr
    assert WARNING in drain.stdout + drain.stderr
    assert after_drain == [1, 1]
    assert second.returncode == 4, second.stderr
    assert stop.stdout == f"{flow} stopped\n{flow.target}->{flow.source} stopped\n", stop.stderr
    job.stop()  # raises if it had not ended with exit code 0
    plan = replication("plan", config)
    assert (plan.returncode, "a start emits the heartbeats of" in plan.stdout) == (0, True)


def test_an_outage_is_said_where_nothing_but_heartbeats_runs(
    clusters: Clusters, own_process: Broker, tmp_path: Path
) -> None:
    flow = unique_flow()
    both = (clusters[0], own_process)
    config = write_config(tmp_path, both, "", {str(flow): {"enabled": False}}, flow)
    job = start_mirror(config, tmp_path / "log")
    try:
        wait_until(lambda: len(heartbeats(own_process, flow)) >= 1, WAIT_SECONDS)
        assert own_process.pid
        with paused([own_process.pid]):
            wait_until(lambda: said(tmp_path / "log") == ["unreachable"], WAIT_SECONDS)
        wait_until(lambda: said(tmp_path / "log") == ["unreachable", "reachable"], WAIT_SECONDS)
        job.stop()
    finally:
        job.discard()


def said(log: Path) -> list[str]:
    """The events of outages in a log."""
    return re.findall("event=(unreachable|reachable) ", log.read_text())
