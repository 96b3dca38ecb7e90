"""A flow whose source is far away: the way there has a delay, jitter and losses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import HOST, Broker, BrokerSettings, free_port, running
from replication.features.doctor.clusters import AskedCluster, look_at_distance
from replication.kafka.cluster import Cluster
from tests.support.distance import FarBroker, Way
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.proxy import broker_with_listener
from tests.support.topics import assert_equal, copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

RECORDS = 2_000
FAR = Way(round_trip_s=0.1, jitter_s=0.02, loss=0.02)


@pytest.fixture
def far_source(tmp_path: Path, broker_settings: BrokerSettings) -> Iterator[tuple[Broker, str]]:
    """A broker, and its address at the other end of a long way."""
    behind = free_port()
    with FarBroker(behind, FAR) as far:
        second = f"{HOST}:{behind}"
        folder = tmp_path / "far"
        broker = broker_with_listener("A", folder, broker_settings, second, far.bootstrap)
        with running(broker):
            yield broker, far.bootstrap


def test_a_source_far_away_is_measured_said_and_copied(
    spark: SparkSession,
    clusters: Clusters,
    far_source: tuple[Broker, str],
    tmp_path: Path,
    topic_name: str,
) -> None:
    (source, address), (_, target) = far_source, clusters
    admin = {"bootstrap.servers": address}
    with Cluster("A", admin) as cluster:
        said = look_at_distance(AskedCluster(alias="A", admin=admin, is_source=True), cluster)
        assert cluster.round_trip_s() >= FAR.round_trip_s
    fill(source, topic_name, 2, RECORDS)

    settings = {f"{FLOW.source}.bootstrap.servers": address}
    flow = RunningFlow(
        spark,
        tmp_path / "state",
        flow_config(source, target, topic_name, settings),
        "realtime",
    )
    flow.until(lambda: copied((source, target), topic_name) == RECORDS)
    flow.stop()

    assert said.verdict == "warning"
    assert "socket.send.buffer.bytes=102400 lets a connection carry about" in said.found
    assert_equal((source, target), topic_name)
