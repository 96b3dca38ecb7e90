"""A flow goes on, or refuses to, after others have changed its topics or removed its tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.compare import compare
from replication.demo.workload import ProducedRecord, create_topic
from replication.errors import GuardError
from replication.model import TopicPartition
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.stored import stored, stored_runs
from tests.support.topics import (
    assert_equal,
    copied,
    delete_topic,
    difficult,
    fill,
    send,
    send_records,
)

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def test_deleting_a_source_topic_does_not_stop_the_others(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    doomed = f"{topic_name}-doomed"
    fill(source, topic_name, 1, 100, difficult)
    fill(source, doomed, 1, 100, difficult)
    # no refresh sees that the topic is gone
    settings = {"refresh.topics.interval.seconds": "600"}
    config = flow_config(source, target, f"{topic_name}.*", settings)
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    flow.until(lambda: copied(clusters, topic_name) + copied(clusters, doomed) >= 200)

    delete_topic(source, doomed)
    send(source, topic_name, 1, 100, difficult)
    flow.until(lambda: copied(clusters, topic_name) >= 200)
    flow.stop()

    assert_equal(clusters, topic_name)
    assert copied(clusters, doomed) == 100
    # The look at the topics' ids comes first, or the query fails on the topic.
    events = [(event.kind, event.reaction) for event in stored(flow.tables, "events")]
    assert events in ([], [("restarted", "retry")])


def test_a_recreated_source_topic_is_refused(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100, difficult)
    RunningFlow(spark, tmp_path, config, "drain").join()

    delete_topic(source, topic_name)
    fill(source, topic_name, 1, 300, difficult)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    with pytest.raises(GuardError, match="was deleted and created again"):
        flow.join()
    assert [row.kind for row in stored(flow.tables, "events")] == ["refused"]


@pytest.mark.guarantee
def test_a_record_of_another_producer_in_the_target_costs_no_record_of_the_source(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100, difficult)
    RunningFlow(spark, tmp_path, config, "drain").join()
    foreign = ProducedRecord(partition=0, key=b"foreign", value=b"x")
    send_records(target, f"A.{topic_name}", [foreign])
    send(source, topic_name, 1, 50, difficult)

    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    (report,) = compare(
        source.bootstrap, target.bootstrap, {topic_name: f"A.{topic_name}"}
    ).values()
    assert (report.missing, report.repeated, report.extra) == (0, 0, 1)
    assert [row.kind for row in stored(flow.tables, "events")] == ["realigned"]


def test_a_stray_record_in_an_idle_remote_topic_is_passed_over(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 1, 100, difficult)
    RunningFlow(spark, tmp_path, config, "drain").join()

    stray = ProducedRecord(partition=0, key=b"stray", value=b"x")
    send_records(target, f"A.{topic_name}", [stray])
    RunningFlow(spark, tmp_path, config, "drain").join()
    send(source, topic_name, 1, 50, difficult)
    flow = RunningFlow(spark, tmp_path, config, "drain")
    flow.join()

    (report,) = compare(
        source.bootstrap, target.bootstrap, {topic_name: f"A.{topic_name}"}
    ).values()
    assert (report.missing, report.repeated, report.extra) == (0, 0, 1)
    (event,) = stored(flow.tables, "events")
    assert (event.kind, event.offset_from, event.offset_until) == ("realigned", 100, 100)


@pytest.mark.guarantee
def test_without_its_tables_a_flow_finds_its_position_again(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    config = flow_config(source, target, topic_name)
    fill(source, topic_name, 2, 100, difficult)
    RunningFlow(spark, tmp_path / "lost", config, "drain").join()
    send(source, topic_name, 2, 50)

    RunningFlow(spark, tmp_path / "new", config, "drain").join()

    assert copied(clusters, topic_name) == 150
    assert_equal(clusters, topic_name)


@pytest.mark.guarantee
def test_a_remote_topic_that_another_producer_has_filled_stops_a_flow_without_a_map(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 1, 100, difficult)
    foreign = (ProducedRecord(partition=0, key=b"foreign", value=b"%d" % n) for n in range(30))
    create_topic(target.bootstrap, f"A.{topic_name}", 1)
    send_records(target, f"A.{topic_name}", foreign)

    flow = RunningFlow(spark, tmp_path, flow_config(source, target, topic_name), "drain")

    nothing_found = f"none of its last 20 records was found in {topic_name}-0 on cluster A"
    with pytest.raises(GuardError, match=nothing_found):
        flow.join()
    assert copied(clusters, topic_name) == 30
    assert stored_runs(flow.tables, FLOW, TopicPartition(topic_name, 0)) == []
