"""``stop`` where the state directory does not tell whether a job runs: the lease's group does."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.demo.workload import create_topic
from tests.support.cli import run
from tests.support.flows import RunningFlow, unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_a_folder_in_which_no_job_began_is_explained_by_the_leases_group(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    own = unique_flow()  # a killed process of another test may still be in the group of A->B
    file = write_config(tmp_path, clusters, topic_name, flow=own)
    config = load_config(str(file)).flows[0]
    create_topic(clusters[0].bootstrap, topic_name, 1)
    before = run("stop", file)
    elsewhere = tmp_path / "elsewhere"
    flow = RunningFlow(spark, elsewhere, config, "microbatch")
    flow.until(lambda: flow.context.metrics.look().copying.topics)

    while_it_runs = run("stop", file)
    flow.stop()

    assert (before.exit_code, before.stdout) == (0, f"{own} is not running\n")
    assert while_it_runs.exit_code == 8
    group = f"__replication-lease.{own.source}-to-{own.target}.records"
    assert f"One does: {group} on {own.target} has a member" in while_it_runs.stderr


def test_without_an_answer_it_is_not_known(clusters: Clusters, tmp_path: Path) -> None:
    silent = {"B": {"bootstrap.servers": "127.0.0.1:1"}}
    file = write_config(tmp_path, clusters, "t", silent)

    stopped = run("stop", file)

    assert stopped.exit_code == 8
    assert "no job ever began" in stopped.stderr
    assert "One does" not in stopped.stderr
