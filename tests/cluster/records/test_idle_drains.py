"""A drain reads the partitions that have something new, and starts no query where none has."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.stored import stored
from tests.support.topics import assert_equal, fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_a_drain_reads_what_is_new_and_an_idle_one_starts_no_query(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    config = flow_config(*clusters, topic_name)

    def drained() -> str:
        caplog.clear()
        flow = RunningFlow(spark, tmp_path / "state", config, "drain")
        flow.join()
        assert stored(flow.tables, "leases", order="renewed")[-1].released
        return caplog.text

    fill(clusters[0], topic_name, 3, 30)
    assert "event=generation_started generation=1 mode=drain topics=1 partitions=3" in drained()
    idle = drained()
    assert "event=drain_begun partitions=0 of=3" in idle
    assert "generation_started" not in idle
    send(clusters[0], topic_name, 1, 10)
    assert "event=drain_begun partitions=1 of=3" in drained()
    assert_equal(clusters, topic_name)
