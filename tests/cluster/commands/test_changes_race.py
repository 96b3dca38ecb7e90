"""Many operators at once, and an owner that is killed in between: every change counts, once."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.topic_log import log_ends
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles
from replication.state.tables import reader_of
from tests.support.cli import ok, run
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import REPOSITORY, SCRIPT, Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.process_tree import family, kill
from tests.support.running_process import RunningProcess
from tests.support.topics import assert_equal, copied, fill, send
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(600)]

WRITERS, CHANGES = 8, 50
START_SECONDS = 120.0


def writing(state: Path, writer: int) -> "subprocess.Popen[bytes]":
    """A process that makes changes."""
    arguments = (str(state), FLOW.source, FLOW.target, str(writer), str(CHANGES))
    command = [sys.executable, "-m", "tests.support.changing", *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY)


def test_every_change_counts_once_though_its_owner_is_killed(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 2, 20)
    more = {"replication.mode": "microbatch"}
    file = write_config(tmp_path, clusters, topic_name, more)
    state = tmp_path / "state"
    changes = ChangeFiles(LocalFiles(), state.as_uri(), FLOW)
    remote = f"A.{topic_name}"

    with RunningProcess("mirror", [str(SCRIPT), "--config", str(file)], tmp_path / "log") as job:
        wait_until(job.while_running(lambda: copied(clusters, topic_name) == 20), START_SECONDS)
        paused = ok(run("pause", file, "--topic", topic_name, "--partition", 1))
        send(clusters[0], topic_name, 2, 20)
        writers = [writing(state, number) for number in range(WRITERS)]
        wait_until(lambda: changes.read().number > CHANGES, START_SECONDS)
        kill(family(job.pid))
        codes = [writer.wait(START_SECONDS) for writer in writers]
    config = flow_config(*clusters, topic_name)
    after = RunningFlow(spark, state, config, "drain")
    after.join()
    while_paused = log_ends(clusters[1].bootstrap, [remote])[remote]
    rows = reader_of(after.tables).rows("changes", FLOW)
    ok(run("resume", file, "--topic", topic_name, "--partition", 1))
    RunningFlow(spark, state, config, "drain").join()

    assert "in force" in paused.output
    assert codes == [0] * WRITERS
    assert while_paused == 30, "ten of the first partition"
    folded = ChangeFiles(LocalFiles(), state.as_uri(), FLOW).read()
    assert len(folded.changes) == WRITERS * CHANGES + 2
    assert len(folded.edits["groups"]) == WRITERS * CHANGES
    names = [f"{row['number']:010d}-{row['id']}" for row in rows]
    assert sorted(names) == [change.name for change in folded.changes[:-1]]
    assert len(list((state / "_control").glob("change-*"))) < 200, "they were collected"
    assert_equal(clusters, topic_name)
    assert "realigned" not in kinds(after.tables)
