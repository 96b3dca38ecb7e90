"""Flows whose tables were damaged: what the error advises helps, and leases and events heal."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.changes import Change
from replication.model import TopicPartition
from replication.state.change_files import ChangeFiles
from replication.state.files import LocalFiles
from replication.state.schemas import DamagedTableError
from tests.support.commands import spark_submit
from tests.support.damage import commit_cut, data_gone
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.said import SaidLines
from tests.support.stored import stored_runs
from tests.support.topics import assert_copies, assert_equal, copied, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_a_flow_goes_on_after_the_damaged_map_was_moved_away(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path, config, "drain").join()
    send(source, topic_name, 1, 10)
    data_gone(tmp_path / "offset_runs")

    with pytest.raises(DamagedTableError, match=rf"{tmp_path}/offset_runs: .* move this folder"):
        RunningFlow(spark, tmp_path, config, "drain").join()
    (tmp_path / "offset_runs").rename(tmp_path / "away")
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert_equal(clusters, topic_name)
    assert kinds(flow.tables) == ["adopted"]


def test_a_flow_goes_on_with_damaged_leases_and_events(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """It waits until nothing of an owner can write that nobody remembers."""
    source, target = clusters
    config = flow_config(source, target, topic_name, flow=unique_flow())
    fill(source, topic_name, 1, 100)
    RunningFlow(spark, tmp_path, config, "drain").join()
    send(source, topic_name, 1, 10)
    commit_cut(tmp_path / "leases")
    (tmp_path / "events" / "_delta_log").mkdir(parents=True)
    (tmp_path / "events" / "_delta_log" / "00000000000000000000.json").write_text("{")

    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert_copies(clusters, {topic_name: f"{config.flow.source}.{topic_name}"})
    assert kinds(flow.tables) == ["table-damaged", "table-damaged"]
    assert len(list(tmp_path.glob("*.damaged-*"))) == 2


@pytest.mark.parametrize("gone", [".", "offset_runs"])
def test_a_state_directory_or_a_table_that_was_away_is_not_made_again_and_misses_no_run(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
    gone: str,
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100)
    config = flow_config(source, target, topic_name, {"state.write.interval.seconds": "1"})
    state = tmp_path / "state"
    changes = ChangeFiles(LocalFiles(), state.as_uri(), FLOW)
    change = changes.write(Change(FLOW, "pause", ("none",), by="ann@desk"))
    flow = RunningFlow(spark, state, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) >= 100)
    flow.until(lambda: stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0)))

    away = (state / gone).rename(tmp_path / "away")
    send(source, topic_name, 1, 50)
    # a write is due every second: what is kept for a minute is not lost after six of them
    flow.until(lambda: len(said.of("map_write_failed")) >= 8)
    is_made_again = (state / gone).exists()
    away.rename(state / gone)
    send(source, topic_name, 1, 50)
    flow.until(lambda: copied(clusters, topic_name) >= 200)
    shutil.rmtree(state / "_control")
    flow.until((state / "_control").exists)
    flow.stop()

    assert not is_made_again
    named = "state.dir" if gone == "." else f"{state}/offset_runs has disappeared"
    assert any(named in line.text for line in said.of("map_write_failed"))
    assert_equal(clusters, topic_name)
    (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0))
    assert (run.count, run.is_dense) == (200, True)
    assert changes.read().changes == ChangeFiles(LocalFiles(), state.as_uri(), FLOW).read().changes
    assert changes.steering.changes == (change,)


@pytest.mark.job
def test_a_drain_copies_its_records_before_it_fails_by_another_damaged_table(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    file = write_config(tmp_path, clusters, topic_name, {"groups": ["none"]})
    log = tmp_path / "state" / "topic_acls" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")

    ended = spark_submit(file, "--mode", "drain")

    said = ended.stdout + ended.stderr
    assert ended.returncode == 7, said
    assert f"cannot read table topic_acls at {tmp_path}/state/topic_acls" in said
    assert "move this folder away" in said
    assert_equal(clusters, topic_name)
