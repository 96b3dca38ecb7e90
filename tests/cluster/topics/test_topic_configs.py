"""The settings of remote topics follow those of their source topics, on real brokers."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.background import background_metadata
from replication.config.tree import FlowConfig
from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import create_topic
from replication.flows.context import FlowContext
from replication.flows.metadata import ConfigSync
from replication.model import Job
from replication.state.tables import Tables
from replication.topics.configs import Applied, SyncHistory, TopicKey
from replication.upkeep.prepare import prepare_topics
from replication.upkeep.settings import plan_config_sync
from tests.support.flows import flow_config, flow_context
from tests.support.local import Clusters, Until
from tests.support.stored import stored
from tests.support.topic_settings import change_topic, jars_with, overrides
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

METADATA = ("sync.topic.configs.enabled", "sync.topic.acls.enabled", "refresh.topics.enabled")


def prepared(spark: SparkSession, tables: Tables, config: FlowConfig) -> FlowContext:
    """A flow whose remote topics exist."""
    context = flow_context(spark, tables, config)
    prepare_topics(config, context.source, context.target)
    return context


def until_set(context: FlowContext, remote: str, settings: Mapping[str, str]) -> None:
    """Waits until *remote* sets exactly this: brokers hear of what a round did a moment later."""
    wait_until(lambda: overrides(context.target, remote) == settings, 60)


def applied(tables: Tables) -> Mapping[TopicKey, Applied]:
    """What the rounds recorded as applied."""
    return SyncHistory.of(row.asDict() for row in stored(tables, "topic_configs")).applied


def events(tables: Tables) -> list[tuple[str, str]]:
    """Kind and topic of each event."""
    rows = stored(tables, "events")
    return [(row["kind"], row["topic"]) for row in rows]


def test_remote_topics_follow_their_source_topics(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str
) -> None:
    source, target = clusters
    original = {"retention.ms": "1000000", "segment.ms": "600000", "min.insync.replicas": "1"}
    create_topic(source.bootstrap, topic_name, 1, original)
    context = prepared(spark, tables, flow_config(source, target, topic_name))
    remote = f"A.{topic_name}"
    sync = ConfigSync(context)
    sync.round()
    copied = {"retention.ms": "1000000", "segment.ms": "600000"}
    assert overrides(context.target, remote) == copied
    assert applied(tables) == {(remote, context.target.describe([remote])[remote].topic_id): copied}

    changes = {"retention.ms": "2000000", "segment.ms": None, "cleanup.policy": "compact"}
    change_topic(context.source, topic_name, changes)
    change_topic(context.target, remote, {"min.insync.replicas": "2"})
    sync.round()

    until_set(
        context,
        remote,
        {"retention.ms": "2000000", "cleanup.policy": "compact", "min.insync.replicas": "2"},
    )
    assert plan_config_sync(context.config, context.source, context.target, applied(tables)) == ()
    assert events(tables) == []


def test_a_change_by_hand_is_reported_and_overwritten_each_time(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1, {"retention.ms": "1000000"})
    context = prepared(spark, tables, flow_config(source, target, topic_name))
    remote = f"A.{topic_name}"
    ConfigSync(context).round()
    by_hand = {"retention.ms": "5", "segment.ms": "600000"}

    for _ in range(2):
        change_topic(context.target, remote, by_hand)
        ConfigSync(context).round()

        until_set(context, remote, {"retention.ms": "1000000"})

    assert events(tables) == [("config-overwritten", remote)] * 2
    (text, *_) = [row["text"] for row in stored(tables, "events")]
    assert "retention.ms: 5 -> 1000000" in text
    assert "segment.ms: 600000 -> (target's default)" in text


def test_a_rejected_setting_holds_up_no_other_and_is_reported_once(
    spark: SparkSession,
    clusters: Clusters,
    tables: Tables,
    topic_name: str,
    broker_settings: BrokerSettings,
    tmp_path: Path,
) -> None:
    jars = jars_with("LimitRetention", broker_settings.jars, tmp_path)
    policy = {"alter.config.policy.class.name": "replication.tests.LimitRetention"}
    target = Broker("B", tmp_path / "B", BrokerSettings(jars=jars, properties=policy))
    target.start()
    try:
        create_topic(clusters[0].bootstrap, topic_name, 1)
        context = prepared(spark, tables, flow_config(clusters[0], target, topic_name))
        changes = {
            "retention.ms": "-1",  # the policy names it
            "segment.ms": "600000",  # the policy does not
            "max.message.bytes": "3000000",
            "delete.retention.ms": "5000",
        }
        change_topic(context.source, topic_name, changes)
        sync = ConfigSync(context)
        sync.round()
        sync.round()
        ConfigSync(context).round()  # as after a restart

        remote = f"A.{topic_name}"
        accepted = {"max.message.bytes": "3000000", "delete.retention.ms": "5000"}
        until_set(context, remote, accepted)
        assert events(tables) == [("config-rejected", remote)] * 2
        texts = sorted(row["text"] for row in stored(tables, "events"))
        assert "retention.ms: (target's default) -> -1: set a limit" in texts[0]
        assert "segment.ms: (target's default) -> 600000: too many small files" in texts[1]

        change_topic(context.source, topic_name, {"retention.ms": "7000"})
        sync.round()
        until_set(context, remote, {**accepted, "retention.ms": "7000"})
    finally:
        target.stop()


def test_the_query_brings_a_topic_in_step_within_its_interval(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    interval = {"sync.topic.configs.interval.seconds": "1"}
    context = prepared(spark, tables, flow_config(source, target, topic_name, interval))

    def change(retention: str) -> None:
        context.source.alter_topic_config({topic_name: {"retention.ms": retention}})
        copied = {"retention.ms": retention}
        until(lambda: overrides(context.target, f"A.{topic_name}") == copied, 120)

    with background_metadata(context, "mirror", threading.Event()):
        change("1000000")
        change("2000000")

    held = {row["flow"] for row in stored(tables, "leases", order="epoch")}
    assert held == {"A->B metadata"}


def test_a_stop_of_the_flow_ends_the_query_while_the_records_still_end(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str, until: Until
) -> None:
    context, stop = prepared(spark, tables, flow_config(*clusters, topic_name)), threading.Event()

    with background_metadata(context, "mirror", stop):
        until(lambda: tables.spark.streams.active, 60)
        stop.set()
        until(lambda: any(row["released"] for row in stored(tables, "leases", order="epoch")), 60)

        assert tables.spark.streams.active == []


def test_a_drain_does_one_round_before_its_records(
    spark: SparkSession, clusters: Clusters, tables: Tables, topic_name: str
) -> None:
    source, target = clusters
    create_topic(source.bootstrap, topic_name, 1)
    context = prepared(spark, tables, flow_config(source, target, topic_name))
    change_topic(context.source, topic_name, {"retention.ms": "1000000"})
    draining = replace(context, configured=replace(context.config, mode="drain"))

    with background_metadata(draining, "mirror", threading.Event()):
        at_first = {"retention.ms": "1000000"}
        assert list(applied(tables).values()) == [at_first]
        until_set(context, f"A.{topic_name}", at_first)
        change_topic(context.source, topic_name, {"retention.ms": "2000000"})

    assert overrides(context.target, f"A.{topic_name}") == at_first


@pytest.mark.parametrize(
    ("job", "settings"),
    [
        pytest.param("mirror", dict.fromkeys(METADATA, "false"), id="switched off"),
        pytest.param("replicate", {}, id="a job for records only"),
    ],
)
def test_nothing_runs_where_nothing_is_wanted(
    spark: SparkSession, clusters: Clusters, tables: Tables, job: Job, settings: dict[str, str]
) -> None:
    config = flow_config(*clusters, "none", settings)

    with background_metadata(flow_context(spark, tables, config), job, threading.Event()):
        assert spark.streams.active == []
