"""Heartbeats on real clusters: where they are emitted, and how they are replicated."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app.background import background_heartbeats
from replication.config.tree import MirrorConfig
from replication.demo.brokers import free_port
from replication.kafka.cluster import Cluster
from replication.model import Flow
from tests.support.flows import RunningFlow, mirror_config, unique_flow
from tests.support.internal_topics import heartbeats
from tests.support.local import Clusters, Until
from tests.support.topics import now_ms

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def test_a_heartbeat_every_interval_for_each_pair_of_clusters(
    spark: SparkSession, clusters: Clusters, until: Until
) -> None:
    config = config_of(clusters)
    flow = config.flows[0].flow
    reverse = Flow(flow.target, flow.source)
    source, target = clusters
    began_ms = now_ms()

    with background_heartbeats(spark, config, config.flows, "mirror"):
        until(lambda: len(heartbeats(target, flow)) >= 3, 60)
        until(lambda: len(heartbeats(source, reverse)) >= 3, 60)
        names = {query.name for query in spark.streams.active}

    assert names == {"heartbeats"}  # one query for all pairs
    beats = [beat.timestamp_ms for beat in heartbeats(target, flow)]
    assert beats == sorted(beats)
    assert began_ms <= beats[0] <= beats[-1] <= now_ms()
    assert len(beats) <= (beats[-1] - beats[0]) / 1000 + 2  # one a second
    assert heartbeats(source, flow) == heartbeats(target, reverse) == []
    with Cluster("B", {"bootstrap.servers": target.bootstrap}) as cluster:
        assert cluster.describe(["heartbeats"])["heartbeats"].partitions == 1
        policy = cluster.topic_config(["heartbeats"])["heartbeats"]
        assert policy["cleanup.policy"].value == "compact"


def test_with_emission_off_no_query_runs(spark: SparkSession, clusters: Clusters) -> None:
    config = mirror_config(*clusters, "none", {"emit.heartbeats.enabled": "false"})

    with background_heartbeats(spark, config, config.flows, "mirror"):
        assert spark.streams.active == []


def test_a_disabled_flow_whose_emission_is_off_emits_nothing(
    spark: SparkSession, clusters: Clusters, until: Until
) -> None:
    flow = unique_flow()
    reverse = Flow(flow.target, flow.source)
    config = config_of(clusters, {f"{reverse}.emit.heartbeats.enabled": "false"}, flow)

    with background_heartbeats(spark, config, config.flows, "mirror"):
        until(lambda: len(heartbeats(clusters[1], flow)) >= 2, 60)

    assert heartbeats(clusters[0], reverse) == []


def test_an_unavailable_cluster_delays_no_heartbeats_of_other_clusters(
    spark: SparkSession, clusters: Clusters, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    flow = unique_flow()
    nowhere = {
        f"{flow.source}.bootstrap.servers": f"127.0.0.1:{free_port()}",
        f"{flow.source}.admin.default.api.timeout.ms": "2000",
    }
    config = config_of(clusters, nowhere, flow)

    with background_heartbeats(spark, config, config.flows, "mirror"):
        until(lambda: len(heartbeats(clusters[1], flow)) >= 4, 60)
        until(lambda: "event=heartbeats_unavailable" in caplog.text, 30)

    assert f"flow={flow.target}->{flow.source} event=heartbeats_unavailable" in caplog.text


def test_a_producer_that_cannot_be_opened_fails_no_heartbeats_of_other_clusters(
    spark: SparkSession, clusters: Clusters, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    flow = unique_flow()
    config = config_of(clusters, {f"{flow.source}.producer.no.such.property": "x"}, flow)

    with background_heartbeats(spark, config, config.flows, "mirror"):
        until(lambda: "no.such.property" in caplog.text, 60)
        beats = len(heartbeats(clusters[1], flow))
        until(lambda: len(heartbeats(clusters[1], flow)) >= beats + 3, 60)

    assert caplog.text.count(f"{flow.target}->{flow.source} event=heartbeats_unavailable") == 1
    assert "background_query_failed" not in caplog.text


def test_heartbeats_are_written_to_the_source_if_asked_for(
    spark: SparkSession, clusters: Clusters, until: Until
) -> None:
    config = config_of(clusters, {"heartbeats.topic.location": "source"})
    flow = config.flows[0].flow

    with background_heartbeats(spark, config, config.flows, "heartbeats"):
        until(lambda: heartbeats(clusters[0], flow), 60)

    assert heartbeats(clusters[1], flow) == []


def test_a_drain_emits_one_heartbeat_and_copies_those_of_the_source(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    settings = {"replication.mode": "drain", "heartbeats.replication.enabled": "true"}
    config = config_of(clusters, settings)
    flow = config.flows[0].flow
    reverse = Flow(flow.target, flow.source)
    with background_heartbeats(spark, config, config.flows, "mirror"):
        RunningFlow(spark, tmp_path, config.flows[0], "drain").join()

    (sent,) = heartbeats(clusters[0], reverse)
    assert heartbeats(clusters[1], reverse, f"{flow.source}.heartbeats") == [sent]
    assert len(heartbeats(clusters[1], flow)) == 1


def test_the_identity_policy_renames_heartbeats_too(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    settings = {
        "replication.mode": "drain",
        "replication.policy.class": IDENTITY,
        "heartbeats.replication.enabled": "true",
    }
    config = config_of(clusters, settings)
    flow = config.flows[0].flow
    with background_heartbeats(spark, config, config.flows, "mirror"):
        RunningFlow(spark, tmp_path, config.flows[0], "drain").join()

    copies = heartbeats(clusters[1], Flow(flow.target, flow.source), f"{flow.source}.heartbeats")
    assert len(copies) == 1


def config_of(
    clusters: Clusters, settings: Mapping[str, str] | None = None, flow: Flow | None = None
) -> MirrorConfig:
    """The configuration of a flow that selects no topic except heartbeats."""
    allowed = {"replication.drain.empty.allowed": "true", **(settings or {})}
    return mirror_config(*clusters, "no-such-topic", allowed, flow or unique_flow())
