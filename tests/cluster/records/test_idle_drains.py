"""A drain reads the partitions that have something new, and starts no query where none has."""

import shutil
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import create_topic
from replication.kafka.cluster import Cluster
from replication.model import Committed, TopicPartition
from tests.support.commands import spark_submit
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.groups import commit, committed
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.stored import record_events, stored
from tests.support.topic_settings import alter_topic
from tests.support.topics import assert_copies, assert_equal, fill, send, send_records
from tests.support.transformed import SETTINGS, assert_transformed, people

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
    first = drained()
    assert "event=generation_started generation=1 mode=drain " in first
    assert " topics=1 partitions=3 " in first
    idle = drained()
    assert "event=drain_begun partitions=0 of=3" in idle
    assert "generation_started" not in idle
    send(clusters[0], topic_name, 1, 10)
    assert "event=drain_begun partitions=1 of=3" in drained()
    assert_equal(clusters, topic_name)


@pytest.mark.job
def test_a_job_without_anything_to_copy_does_its_rounds_and_starts_no_spark(
    spark: SparkSession,  # noqa: ARG001 - of whose JVM the clients are that move groups
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
) -> None:
    source, target = clusters
    flow, group = unique_flow(), f"group-of-{topic_name}"
    fill(source, topic_name, 3, 30)
    more = {"sync.group.offsets.enabled": True, "groups": [group]}
    config = write_config(tmp_path, clusters, topic_name, more, flow)

    first = spark_submit(config, "--mode", "drain")
    assert (first.returncode, "event=spark_started" in first.stdout) == (0, True), first.stdout

    commit(source, group, {TopicPartition(topic_name, 0): Committed(4)})
    idle = spark_submit(config, "--mode", "drain")

    assert idle.returncode == 0, idle.stdout
    assert "event=spark_started" not in idle.stdout
    assert "partitions=0 of=3" in idle.stdout
    remote = TopicPartition(f"{flow.source}.{topic_name}", 0)
    assert committed(target, group)[remote].offset == 4, "the group was moved without Spark"
    assert stored(tmp_path / "state", "leases", order="renewed")[-1].released

    send(source, topic_name, 1, 10)
    again = spark_submit(config, "--mode", "drain")
    assert (again.returncode, "event=spark_started" in again.stdout) == (0, True), again.stdout
    assert_copies(clusters, {topic_name: remote.topic})


@pytest.mark.job
def test_a_drain_with_transforms_starts_spark_for_what_is_new_only(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    """New are records, an expression of the file, and what a killed process has not recorded."""
    create_topic(clusters[0].bootstrap, topic_name, 2)
    send_records(clusters[0], topic_name, islice(people(2), 700))
    state, before = tmp_path / "state", tmp_path / "before"

    def drained(**more: str) -> tuple[int, bool, str]:
        config = write_config(tmp_path, clusters, topic_name, {**SETTINGS, **more})
        job = spark_submit(config, "--mode", "drain")
        return job.returncode, "event=spark_started" in job.stdout, job.stdout

    assert drained()[:2] == (0, True)
    shutil.copytree(state, before)
    code, has_started, said = drained()
    assert (code, has_started) == (0, False), said
    assert "partitions=0 of=2" in said, "the last records are dropped, and done"
    wrong = {"A->B.replication.transforms.mask.value": "no_function(value)"}
    code, has_started, said = drained(**wrong)
    assert (code, has_started) == (2, True), "an expression that Spark has not seen"
    assert "transforms.mask.value: Spark does not take it" in said

    send_records(clusters[0], topic_name, islice(people(2, 700), 700))
    assert drained()[:2] == (0, True)
    shutil.rmtree(state)
    before.rename(state)
    code, has_started, said = drained()
    assert (code, has_started) == (0, True), "counted by the transform that is recorded"
    assert_transformed(clusters, topic_name, 2)
    assert record_events(state) == []


@pytest.mark.job
def test_a_drains_own_heartbeat_is_copied_without_spark_and_with_it_where_that_fails(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    flow = unique_flow()
    fill(source, topic_name, 1, 3)
    config = write_config(
        tmp_path, clusters, topic_name, {"heartbeats.replication.enabled": True}, flow
    )
    remote = f"{flow.source}.heartbeats"

    def copies() -> int:
        with Cluster("B", {"bootstrap.servers": target.bootstrap}) as cluster:
            return sum(cluster.log_ends([TopicPartition(remote, 0)]).values())

    def drained() -> str:
        job = spark_submit(config, "--mode", "drain")
        assert job.returncode == 0, job.stdout
        return job.stdout

    assert "event=spark_started" in drained()
    before = copies()
    idle = drained()
    assert "event=spark_started" not in idle
    assert copies() == before + 1, "one heartbeat a drain"
    ends = stored(tmp_path / "state", "executions", "topic = 'heartbeats'", "started_at")
    assert (ends[-1].records, ends[-1].behind, ends[-1].mode) == (1, 0, "drain")
    assert ends[-1].bytes > 0

    alter_topic(target, remote, "max.message.bytes", "10")
    failed = spark_submit(config, "--mode", "drain")
    assert "event=heartbeats_left_to_spark" in failed.stdout
    assert "event=spark_started" in failed.stdout
    assert failed.returncode != 0, "Spark's query has said why"

    alter_topic(target, remote, "max.message.bytes", "1000000")
    drained()
    assert_copies(clusters, {"heartbeats": remote, topic_name: f"{flow.source}.{topic_name}"})
