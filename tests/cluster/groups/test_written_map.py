"""A command beside a running flow reads the map of all that was copied before the question."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import TopicPartition
from replication.offsets.map import Exact, translate
from replication.state.job_lock import hold_jobs
from replication.state.write_requests import await_written
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.stored import stored_runs
from tests.support.topics import copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

SELDOM = {"state.write.interval.seconds": "600"}


def test_the_process_that_runs_the_flow_writes_its_map_first(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    tp = TopicPartition(topic_name, 0)
    fill(clusters[0], topic_name, 1, 100)
    config = flow_config(*clusters, topic_name, SELDOM)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    state_dir = flow.tables.root

    def is_written() -> bool:  # executors report twice a second what they have copied
        assert await_written(state_dir, config.flow) == ""
        return translate(stored_runs(flow.tables, config.flow, tp), 100) == Exact(100)

    flow.until(lambda: copied(clusters, topic_name) >= 100)
    before = translate(stored_runs(flow.tables, config.flow, tp), 100)
    with hold_jobs(state_dir, [config.flow], "mirror"):
        flow.until(is_written)
        flow.stop()
        late = await_written(state_dir, config.flow, patience_seconds=0.5)

    assert before != Exact(100)
    assert "has not written its offset map within 0.5 s" in late
    assert not list((tmp_path / "state" / "_control").glob("write-*"))
    assert await_written(state_dir, config.flow) == ""  # nobody runs it
