"""A few tasks share all partitions of a flow: their number never decides what is copied."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import ProducedRecord, create_topic
from replication.model import Mode, TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.said import SaidLines
from tests.support.stored import record_events, stored_runs
from tests.support.topics import assert_equal, copied, difficult, fill, now_ms, send, send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SHARED = {"replication.source": "shared"}
LONG_FETCH_SECONDS = 600  # longer than any limit of a test


def shared(tasks: int, **more: str) -> Mapping[str, str]:
    """Settings of a flow whose partitions are shared by at most so many tasks."""
    return {**SHARED, "tasks.max": str(tasks), **more}


def tasks_of(said: SaidLines) -> list[tuple[object, object]]:
    """Source and tasks of each generation that has started."""
    started = said.of("generation_started")
    return [(line.fields["source"], line.fields["tasks"]) for line in started]


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_two_tasks_copy_200_partitions(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
    mode: Mode,
) -> None:
    fill(clusters[0], topic_name, 200, 2000, difficult)

    flow = RunningFlow(spark, tmp_path, flow_config(*clusters, topic_name, shared(2)), mode)
    flow.until(lambda: copied(clusters, topic_name) >= 2000)
    send(clusters[0], topic_name, 200, 200, difficult)
    flow.until(lambda: copied(clusters, topic_name) >= 2200)
    flow.stop()

    assert tasks_of(said) == [("shared", 2)]
    assert_equal(clusters, topic_name)
    for partition in (0, 199):
        (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, partition))
        assert run.is_dense
    assert record_events(flow.tables) == []


@pytest.mark.parametrize(
    ("partitions", "most", "tasks"),
    [pytest.param(50, 1, 1, id="one task"), pytest.param(3, 20, 3, id="more than partitions")],
)
def test_any_number_of_tasks_drains_all_partitions(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
    partitions: int,
    most: int,
    tasks: int,
) -> None:
    fill(clusters[0], topic_name, partitions, 10 * partitions + 1, difficult)

    config = flow_config(*clusters, topic_name, shared(most))
    RunningFlow(spark, tmp_path, config, "drain").join()

    assert tasks_of(said) == [("shared", tasks)]
    assert_equal(clusters, topic_name)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_partition_with_a_backlog_does_not_wait_for_idle_ones(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 20, {"compression.type": "lz4"})
    backlog = (
        ProducedRecord(
            partition=7, key=None, value=os.urandom(500).hex().encode(), timestamp_ms=now_ms()
        )
        for _ in range(5000)
    )
    send_records(clusters[0], topic_name, backlog)
    # A fetch that leaves the backlog out would wait for a record of the other partitions.
    waiting = {
        f"{FLOW.source}.consumer.fetch.max.bytes": "65536",
        f"{FLOW.source}.consumer.max.partition.fetch.bytes": "65536",
        f"{FLOW.source}.consumer.fetch.max.wait.ms": str(1000 * LONG_FETCH_SECONDS),
        f"{FLOW.source}.consumer.request.timeout.ms": str(2000 * LONG_FETCH_SECONDS),
        f"{FLOW.source}.consumer.default.api.timeout.ms": str(2000 * LONG_FETCH_SECONDS),
    }

    config = flow_config(*clusters, topic_name, shared(1, **waiting))
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, topic_name) >= 5000)
    flow.stop()

    assert_equal(clusters, topic_name)


def test_a_new_topic_joins_the_others_where_tasks_max_has_no_room(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, said: SaidLines
) -> None:
    later = f"{topic_name}-later"
    fill(clusters[0], topic_name, 3, 300)
    config = flow_config(*clusters, f"{topic_name}.*", shared(1))
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) >= 300)

    fill(clusters[0], later, 2, 200)
    flow.until(lambda: copied(clusters, later) >= 200)
    send(clusters[0], topic_name, 3, 300)
    flow.until(lambda: copied(clusters, topic_name) >= 600)
    flow.stop()

    assert [line.fields["running"] for line in said.of("generation_started")] == [1, 1]
    assert_equal(clusters, topic_name, later)


@pytest.mark.parametrize("mode", ["realtime", "microbatch", "drain"])
def test_spark_s_own_source_copies_as_well(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
    mode: Mode,
) -> None:
    fill(clusters[0], topic_name, 3, 3000, difficult)

    config = flow_config(*clusters, topic_name, {"replication.source": "spark"})
    flow = RunningFlow(spark, tmp_path, config, mode)
    flow.until(lambda: copied(clusters, topic_name) >= 3000)
    flow.stop()

    assert tasks_of(said) == [("spark", 3)]
    assert_equal(clusters, topic_name)
    assert record_events(flow.tables) == []
