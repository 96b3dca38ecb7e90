"""The command line against two real clusters, and what it says to bad input."""

import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from replication.cli.main import main
from replication.demo.ports import free_port
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic, plain_records, sending
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import write_config

pytestmark = pytest.mark.cluster

EARLIEST = "auto.offset.reset=earliest"


def test_plan_shows_what_would_be_created_and_creates_nothing(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 3)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(3, size_bytes=9, now_ms=0), 6))

    result = run("plan", write_config(tmp_path, clusters, topic_name))

    assert result.exit_code == 0
    for partition in range(3):
        row = [f"{topic_name}-{partition}", f"A.{topic_name}", "0", EARLIEST, "create"]
        assert row in cells(result.stdout)
    assert log_ends(target.bootstrap, [f"A.{topic_name}"]) == {f"A.{topic_name}": 0}


def test_slots_suffice_for_every_partition_and_the_books(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 3)

    assert run("slots", write_config(tmp_path, clusters, topic_name)).output == "14\n"


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
        pytest.param({"A->B": {"enabled": True, "topics": []}}, "topics", id="no topics"),
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


def test_a_local_state_directory_is_refused_on_a_cluster(
    clusters: Clusters, tmp_path: Path
) -> None:
    result = run("validate", write_config(tmp_path, clusters, "x"), "--master", "yarn")

    assert result.exit_code == 2
    assert "state.dir" in result.stderr


@pytest.mark.spark
def test_translate_answers_from_the_table_both_ways(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    create_topic(target.bootstrap, f"A.{topic_name}", 1)
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(1, size_bytes=9, now_ms=0), 100))
    latest = flow_config(source, target, topic_name, {"auto.offset.reset": "latest"})
    RunningFlow(spark, tmp_path / "state", latest, "drain").join()
    with sending(source.bootstrap) as sender:
        sender.send_all(topic_name, islice(plain_records(1, size_bytes=9, now_ms=0), 50))
    RunningFlow(spark, tmp_path / "state", latest, "drain").join()
    file = write_config(tmp_path, clusters, topic_name)

    def translated(offset: int, *back: str) -> str:
        # a process of its own: the command starts and stops a Spark session
        command = [sys.executable, "-m", "replication", "translate", str(file), "--flow", "A->B"]
        place = ["--topic", topic_name, "--partition", "0", "--offset", str(offset), *back]
        done = subprocess.run([*command, *place], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert translated(130) == "30 exact"
    assert translated(30, "--back") == "130 exact"


def cells(table: str) -> list[list[str]]:
    """The rows of printed tables."""
    return [re.split(r" *[│┃] *", line.strip(" │┃")) for line in table.splitlines()]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(it) for it in arguments])
