"""A command refuses what it cannot run with, and says what to correct."""

import os
import subprocess
from pathlib import Path

import pytest

from replication.demo.brokers import free_port
from replication.demo.workload import create_topic
from tests.support.cli import run
from tests.support.local import PYTHON, REPOSITORY, Clusters
from tests.support.mirror_files import identity_flows, write_config

pytestmark = pytest.mark.cluster


def test_a_driver_memory_that_is_no_size_is_an_error(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file = write_config(tmp_path, clusters, topic_name)

    result = run("slots", file, "--", "--driver-memory", "much")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "the driver's memory is 'much'; write a size such as 2g or 1500m" in result.stderr


def test_an_unreachable_cluster_is_named_with_its_address(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    file = write_config(
        tmp_path,
        clusters,
        topic_name,
        {"A": {"bootstrap.servers": nowhere, "admin.request.timeout.ms": 3000}},
    )

    result = run("plan", file)

    assert result.exit_code == 3
    assert f"cluster A (bootstrap.servers={nowhere})" in result.stderr
    assert "refused" in result.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"A->B": {"enabled": True, "topcis": "x"}}, "topcis", id="unknown key"),
        pytest.param({"A->B": {"enabled": True, "topics": ["a("]}}, "topics", id="no regex"),
        pytest.param({"A->A": {"enabled": True}}, "A->A", id="source is target"),
        pytest.param({"A": {"bootstrap.servers": "here"}}, "A.bootstrap.servers", id="no port"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    clusters: Clusters, tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    result = run("validate", write_config(tmp_path, clusters, "x", settings))

    assert result.exit_code == 2
    assert said in result.stderr


def test_two_aliases_of_one_cluster_are_refused(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, _ = clusters

    result = run("plan", write_config(tmp_path, (source, source), topic_name))

    assert result.exit_code == 5
    assert "are the same Kafka cluster" in result.stderr


def test_a_topic_that_would_be_copied_in_a_circle_is_refused_before_the_start(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    more = identity_flows(topic_name, "B->A")
    file = write_config(tmp_path, clusters, topic_name, more)

    planned = run("plan", file)
    job = [str(PYTHON), str(REPOSITORY / "jobs" / "mirror.py"), "--config", str(file)]
    path = {"PYTHONPATH": str(REPOSITORY)}
    started = subprocess.run(
        job, env=os.environ | path, capture_output=True, text=True, check=False
    )

    assert (planned.exit_code, started.returncode) == (2, 2)
    loop = f"replication loop: A:{topic_name} -> B:{topic_name} -> A:{topic_name}"
    assert loop in planned.stderr
    assert loop in started.stderr
    assert not (tmp_path / "state").exists()


def test_a_local_state_directory_is_refused_on_a_cluster(
    clusters: Clusters, tmp_path: Path
) -> None:
    result = run("validate", write_config(tmp_path, clusters, "x"), "--master", "yarn")

    assert result.exit_code == 2
    assert "state.dir" in result.stderr
