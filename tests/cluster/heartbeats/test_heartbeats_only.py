"""A file without an enabled flow: the job emits the heartbeats of all pairs, as MirrorMaker 2."""

from pathlib import Path

import pytest

from replication.model import Flow
from tests.support.commands import replication, spark_submit, start_mirror
from tests.support.flows import unique_flow
from tests.support.internal_topics import heartbeats
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
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
