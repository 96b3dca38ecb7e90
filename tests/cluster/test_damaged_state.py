"""Flows whose tables were damaged: what the error advises helps, and leases and events heal."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.state.table_errors import DamagedTableError
from tests.support.damage import commit_cut, data_gone
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.topics import assert_copies, assert_equal, fill, send

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
