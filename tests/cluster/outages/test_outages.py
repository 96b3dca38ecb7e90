"""Clusters that do not answer, and partitions without a leader: flows wait and go on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings, free_port
from replication.errors import ClusterError
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import CallError
from replication.model import TopicPartition
from replication.state import lease
from tests.support.commands import replication, start_mirror
from tests.support.events import kinds
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters, Until
from tests.support.mirror_files import write_config
from tests.support.process_tree import paused
from tests.support.stored import stored
from tests.support.topics import copied, fill, send
from tests.support.two_brokers import (
    could_elect_preferred_leader,
    create_movable_topic,
    create_spread_topic,
    two_brokers,
)
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IMPATIENT = {
    "A.admin.default.api.timeout.ms": "2000",
    "B.admin.default.api.timeout.ms": "2000",
    # Spark's clients give up soon, too
    "A.consumer.default.api.timeout.ms": "5000",
    "A.consumer.request.timeout.ms": "4000",
    "emit.offset-syncs.enabled": "false",
}


@pytest.fixture
def short_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow waits for less than a minute until its target names the lease's owner."""
    monkeypatch.setattr(lease, "JOIN_SECONDS", 5.0)


@pytest.mark.spark
@pytest.mark.usefixtures("short_join")
def test_a_flow_waits_for_a_cluster_that_is_down_when_it_starts(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    source = clusters[0]
    fill(source, topic_name, 1, 100)
    config = flow_config(source, own_broker, topic_name, IMPATIENT)
    own_broker.stop()

    flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
    flow.until(lambda: kinds(flow.tables) == ["unreachable"])
    own_broker.start()
    flow.until(lambda: copied((source, own_broker), topic_name) >= 100)
    flow.stop()

    assert kinds(flow.tables) == ["unreachable", "reachable"]


@pytest.mark.spark
def test_a_flow_outlives_the_outage_of_its_source(
    spark: SparkSession, clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    both = (own_broker, clusters[1])
    fill(own_broker, topic_name, 1, 100)
    config = flow_config(*both, topic_name, IMPATIENT)
    flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
    flow.until(lambda: copied(both, topic_name) >= 100)

    own_broker.kill()
    flow.until(lambda: kinds(flow.tables) == ["unreachable"], timeout_seconds=120)
    own_broker.start()
    send(own_broker, topic_name, 1, 50)
    flow.until(lambda: copied(both, topic_name) >= 150)
    flow.stop()

    assert copied(both, topic_name) == 150
    assert kinds(flow.tables) == ["unreachable", "reachable"]


@pytest.mark.spark
def test_a_drain_gives_up(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    settings = {**IMPATIENT, "B.bootstrap.servers": nowhere}
    config = flow_config(*clusters, topic_name, settings)
    drain = RunningFlow(spark, tmp_path, config, "drain")

    with (
        in_time(30, "the drain's end"),
        pytest.raises(ClusterError, match=rf"cluster B .*{nowhere}: connection refused"),
    ):
        drain.join()

    assert kinds(drain.tables) == ["unreachable"]


def test_where_a_partition_ends_whose_leader_is_paused_is_unknown(
    broker_settings: BrokerSettings, tmp_path: Path, topic_name: str
) -> None:
    with two_brokers(tmp_path, broker_settings) as (first, second):
        create_spread_topic(first, topic_name)
        patience = {"default.api.timeout.ms": "2000"}
        with Cluster("A", {"bootstrap.servers": first.bootstrap, **patience}) as cluster:
            ours, theirs = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
            assert cluster.log_ends([ours, theirs]) == {ours: 0, theirs: 0}
            assert second.pid
            with paused([second.pid]), pytest.raises(CallError) as caught:
                cluster.log_ends([ours, theirs])

    assert caught.value.is_temporary
    assert f"{topic_name}-1" in str(caught.value)


@pytest.mark.spark
def test_a_partition_without_a_leader_is_left_out_until_it_has_one(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
) -> None:
    with two_brokers(tmp_path / "source", broker_settings) as (first, second):
        both = (first, clusters[1])
        create_spread_topic(first, topic_name)
        send(first, topic_name, 2, 100)
        config = flow_config(*both, topic_name, IMPATIENT)
        flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
        flow.until(lambda: copied(both, topic_name) >= 100)

        second.stop()
        flow.until(lambda: "set-aside" in kinds(flow.tables), timeout_seconds=120)
        send(first, topic_name, 1, 50)
        flow.until(lambda: copied(both, topic_name) >= 150)
        second.start()
        send(first, topic_name, 2, 100)
        flow.until(lambda: copied(both, topic_name) >= 250)
        flow.stop()

        assert copied(both, topic_name) == 250
        rows = stored(flow.tables, "events", "kind like '%set-aside%'")
        assert [(row.topic, row.partition) for row in rows] == [(topic_name, 1)]
        assert "rejoined" in kinds(flow.tables)


@pytest.mark.spark
def test_idle_tasks_of_realtime_mode_follow_their_partitions_leader(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
) -> None:
    # Nothing but the error of a fetch tells a task: no refresh, no batch and no metadata is due.
    lasting = {
        "refresh.topics.interval.seconds": "600",
        "replication.realtime.batch.seconds": "600",
    }
    with two_brokers(tmp_path / "source", broker_settings) as (first, second):
        both = (first, clusters[1])
        create_movable_topic(first, topic_name)
        send(first, topic_name, 1, 100)
        config = flow_config(*both, topic_name, lasting)
        flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
        flow.until(lambda: copied(both, topic_name) >= 100)

        second.stop()
        send(first, topic_name, 1, 50)
        flow.until(lambda: copied(both, topic_name) >= 150)
        second.start()
        flow.until(lambda: could_elect_preferred_leader(first, topic_name))
        send(first, topic_name, 1, 50)
        flow.until(lambda: copied(both, topic_name) >= 200)
        flow.stop()

        assert copied(both, topic_name) == 200
        assert {row.generation for row in stored(flow.tables, "topics")} == {1}


@pytest.mark.job
def test_one_cluster_that_is_down_does_not_keep_the_other_flows_from_starting(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    more = {
        "clusters": ["A", "B", "C"],
        "C": {"bootstrap.servers": f"127.0.0.1:{free_port()}"},
        "A->C": {"enabled": True, "topics": [topic_name]},
        "emit.heartbeats.enabled": False,
        "replication.mode": "microbatch",
    }
    file = write_config(tmp_path, clusters, topic_name, more)
    mirror = start_mirror(file, tmp_path / "mirror.log")
    try:
        until(lambda: "event=unreachable" in mirror.log.read_text(), 120)
        until(lambda: copied(clusters, topic_name) >= 100, 60)
        stop = replication("stop", file)
    finally:
        mirror.discard()

    assert (stop.returncode, stop.stdout) == (0, "A->B stopped\nA->C stopped\n"), stop.stderr
    log = mirror.log.read_text()
    assert "event=flow_failed" not in log
    assert log.count("event=unreachable") == 1  # however many parts of the flow wait
    assert "flow=A->C event=unreachable reaction=retry cluster=C" in log
