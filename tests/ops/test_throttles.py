"""A quota that holds a flow back is a figure, and a word of the condition that it causes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.figures.lag import steady
from replication.figures.observation import Observation
from replication.flows.observe.flow_observer import FlowObserver
from replication.spark.acknowledged import ReportedFigures
from replication.spark.kafka_options import client_id, named
from tests.support.flows import RunningFlow, flow_config, unique_flow
from tests.support.local import Clusters
from tests.support.quotas import set_quota
from tests.support.topics import fill, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

KEYS = ("consumer_byte_rate", "producer_byte_rate")


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_quota_that_holds_a_flow_back_is_said(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str, side: int
) -> None:
    fill(clusters[0], topic_name, 1, 100)
    config = flow_config(*clusters, topic_name, {}, unique_flow())
    cluster = (config.source, config.target)[side]
    readers = named(config.source.consumer, config.flow)["client.id"]
    client = (readers, client_id(config.flow))[side]
    flow = RunningFlow(spark, tmp_path, config, "microbatch")
    snapshots, reports = FlowObserver(flow.context, "replicate"), ReportedFigures(flow.context.jvm)

    def look() -> Observation:
        return snapshots.look(steady(), reports.of(config.flow))

    def is_held() -> bool:
        """Sends on: the broker hears of a quota a moment after it was set."""
        send(clusters[0], topic_name, 1, 1)
        return bool(look().labelled["throttle_seconds"])

    flow.until(lambda: look().figures.get("in_flight_records") == 0)
    assert look().labelled["throttle_seconds"] == {}
    set_quota(clusters[side], {"client-id": client}, KEYS[side], 100.0)
    try:
        flow.until(is_held)
        waits = look().labelled["throttle_seconds"]
    finally:
        set_quota(clusters[side], {"client-id": client}, KEYS[side], None)
    flow.stop()

    assert list(waits) == [cluster.alias]
    assert waits[cluster.alias] >= 0.001
