"""The replication loop copies what it is configured to, in every mode, on two real clusters."""

from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from replication.demo.workload import (
    PacedProducer,
    create_compacted_topic,
    create_topic,
    plain_records,
    send_transactions,
)
from replication.flows.supervised import HeadStart
from replication.kafka.cluster import Cluster
from replication.model import Mode, TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import record_events, stored, stored_runs
from tests.support.topics import assert_equal, copied, difficult, fill, now_ms, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

# A drain ends by itself, so it shows at once, also on a busy machine, that a record is lost.
MODES: tuple[Mode, ...] = ("drain", "realtime", "microbatch")
RUNNING: tuple[Mode, ...] = ("realtime", "microbatch")


@pytest.mark.parametrize(
    ("records", "idle_seconds"), [(10, 600), (0, 1)], ids=["a topic with records", "an empty topic"]
)
def test_background_queries_may_start_after_the_first_records(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    records: int,
    idle_seconds: float,
) -> None:
    fill(clusters[0], topic_name, 1, records)
    head_start = HeadStart([FLOW], 600, idle_seconds)

    config = flow_config(*clusters, topic_name)
    flow = RunningFlow(spark, tmp_path, config, "realtime", head_start=head_start)
    flow.until(lambda: head_start.is_over)
    first = copied(clusters, topic_name)
    flow.stop()

    assert first == records


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.guarantee
def test_every_kind_of_record_is_copied_unchanged(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    source, target = clusters
    transactional, compacted = f"{topic_name}-tx", f"{topic_name}-compacted"
    fill(source, topic_name, 3, 3000, difficult)
    create_topic(source.bootstrap, transactional, 2)
    records = islice(plain_records(2, size_bytes=50, now_ms=now_ms()), 1000)
    committed = send_transactions(
        source.bootstrap, transactional, records, records_each=20, abort_every=3
    )
    left = create_compacted_topic(source.bootstrap, compacted, 1, now_ms=now_ms())
    expected = {topic_name: 3000, transactional: committed, compacted: left}

    flow = RunningFlow(spark, tmp_path, flow_config(source, target, f"{topic_name}.*"), mode)
    flow.until(lambda: all(copied(clusters, topic) >= count for topic, count in expected.items()))
    flow.stop()

    assert_equal(clusters, *expected)
    (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0))
    assert run.is_dense
    runs = stored_runs(flow.tables, FLOW, TopicPartition(compacted, 0))
    assert sum(run.count for run in runs) == left


@pytest.mark.parametrize("mode", RUNNING)
def test_new_topics_and_partitions_are_replicated_while_the_others_go_on(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    source, target = clusters
    later = f"{topic_name}-later"
    fill(source, topic_name, 1, 500, difficult)
    flow = RunningFlow(spark, tmp_path, flow_config(source, target, f"{topic_name}.*"), mode)
    flow.until(lambda: copied(clusters, topic_name) >= 500)

    fill(source, later, 2, 500, difficult)
    flow.until(lambda: copied(clusters, later) >= 500)
    with Cluster("A", {"bootstrap.servers": source.bootstrap}) as cluster:
        cluster.create_partitions({topic_name: 3})
    send(source, topic_name, 3, 300, difficult)
    flow.until(lambda: copied(clusters, topic_name) >= 800)
    send(source, topic_name, 1, 30, difficult)  # to what the first generation reads
    flow.until(lambda: copied(clusters, topic_name) >= 830)
    flow.stop()

    assert_equal(clusters, topic_name, later)
    rows = stored(flow.tables, "offset_runs", order="generation")
    assert {(row.topic, row.partition, row.generation) for row in rows} == {
        (topic_name, 0, 1),
        (later, 0, 2),
        (later, 1, 2),
        (topic_name, 1, 3),
        (topic_name, 2, 3),
    }


@pytest.mark.parametrize("mode", RUNNING)
@pytest.mark.guarantee
def test_stopping_in_mid_copy_loses_and_repeats_nothing(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, mode: Mode
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 2)
    config = flow_config(source, target, topic_name)
    stream = plain_records(2, size_bytes=100, now_ms=now_ms())
    producer = PacedProducer(source.bootstrap, {topic_name: stream}, records_per_second=2000)
    producer.start()
    for _ in range(2):
        before = copied(clusters, topic_name)
        flow = RunningFlow(spark, tmp_path, config, mode)
        flow.until(lambda before=before: copied(clusters, topic_name) > before + 2000)  # type: ignore[misc]
        flow.stop()
    sent = producer.finish()[topic_name]

    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    assert copied(clusters, topic_name) == sent
    assert_equal(clusters, topic_name)
    for partition in range(2):
        (run,) = stored_runs(flow.tables, FLOW, TopicPartition(topic_name, partition))
        assert run.is_dense
        assert run.src_from == run.tgt_from == 0
    assert record_events(flow.tables) == []


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        pytest.param("read_uncommitted", 100, id="asked for"),
        pytest.param("read_committed", 50, id="not asked for"),
    ],
)
def test_aborted_records_are_copied_only_if_asked_for(
    spark: SparkSession,
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    isolation: str,
    expected: int,
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    records = islice(plain_records(1, size_bytes=50, now_ms=now_ms()), 100)
    committed = send_transactions(
        source.bootstrap, topic_name, records, records_each=10, abort_every=2
    )
    config = flow_config(source, target, topic_name, {"A.consumer.isolation.level": isolation})

    RunningFlow(spark, tmp_path, config, "drain").join()

    assert committed == 50
    assert copied(clusters, topic_name) == expected


def test_the_identity_policy_keeps_topic_names(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100, difficult)
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    config = flow_config(source, target, topic_name, {"replication.policy.class": policy})

    RunningFlow(spark, tmp_path, config, "drain").join()

    reports = compare(source.bootstrap, target.bootstrap, {topic_name: topic_name})
    assert reports[topic_name].is_equal


def test_with_broker_timestamps_everything_else_is_equal(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 300, difficult)
    config = flow_config(source, target, topic_name, {"record.timestamps": "broker"})

    RunningFlow(spark, tmp_path, config, "drain").join()

    remote = {topic_name: f"A.{topic_name}"}
    reports = compare(source.bootstrap, target.bootstrap, remote, with_timestamps=False)
    assert reports[topic_name].is_equal
    (with_times,) = compare(source.bootstrap, target.bootstrap, remote).values()
    assert not with_times.is_equal


def test_latest_starts_at_the_log_end(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100, difficult)
    config = flow_config(source, target, topic_name, {"auto.offset.reset": "latest"})
    RunningFlow(spark, tmp_path, config, "drain").join()
    send(source, topic_name, 1, 7, difficult)

    RunningFlow(spark, tmp_path, config, "drain").join()

    assert copied(clusters, topic_name) == 7
