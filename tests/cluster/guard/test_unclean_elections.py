"""An unclean election cuts a log of three real brokers, while a flow runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import BrokerSettings
from replication.demo.workload import create_topic
from replication.model import TopicPartition
from replication.offsets.map import Exact
from replication.spark.acknowledged import pause_partitions
from tests.support.broker_racks import BrokerRacks, broker_racks
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.numbered import numbered, numbers, translations
from tests.support.stored import stored, stored_runs
from tests.support.topics import send_records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.guarantee]

REPLICAS = [[1, 2]]
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture(scope="module")
def racks(
    broker_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerRacks]:
    with broker_racks(tmp_path_factory.mktemp("racks"), broker_settings) as found:
        yield found


@pytest.mark.parametrize(
    ("side", "reader"), [("source", "shared"), ("source", "spark"), ("target", "shared")]
)
def test_an_unclean_election_is_noticed_although_the_log_has_grown(
    spark: SparkSession,
    clusters: Clusters,
    racks: BrokerRacks,
    tmp_path: Path,
    topic_name: str,
    side: str,
    reader: str,
) -> None:
    tp, remote = TopicPartition(topic_name, 0), f"A.{topic_name}"
    leader, follower, _ = racks.brokers
    source, target = (racks, clusters[1]) if side == "source" else (clusters[0], racks)
    settings = {
        "replication.guard.source-truncated": "skip",
        "replication.guard.target-truncated": "restart",
        "state.write.interval.seconds": "1",
        "replication.source": reader,
        "sync.topic.configs.enabled": "false",
    }
    config = flow_config(source, target, topic_name, settings)
    racks.create_topic(topic_name if side == "source" else remote, REPLICAS, UNCLEAN)
    if side == "target":
        create_topic(source.bootstrap, topic_name, 1)
    send_records(source, topic_name, numbered(0, 80))
    flow = RunningFlow(spark, tmp_path, config, "realtime")

    def written() -> int:
        runs = stored_runs(flow.tables, FLOW, tp)
        return runs[-1].src_until if runs else 0

    flow.until(lambda: written() == 80, 120)
    wait_until(racks.is_whole, 60)
    follower.kill()  # it will have the records 0 to 79
    send_records(source, topic_name, numbered(80, 100))
    flow.until(lambda: written() == 100, 120)

    if reader == "shared":
        pause_partitions(spark, config.flow, [tp])  # as if its task were busy
    leader.kill()
    follower.start()
    if side == "source":
        send_records(source, topic_name, numbered(200, 260))
    leader.start()
    if side == "target":
        send_records(source, topic_name, numbered(200, 260))
    pause_partitions(spark, config.flow, ())
    flow.until(
        lambda: [each for each in stored(flow.tables, "events") if each.kind == "jumped"], 180
    )
    send_records(source, topic_name, numbered(300, 330))
    flow.until(lambda: 329 in numbers(target, remote), 120)
    flow.stop()

    got = numbers(target, remote)
    if side == "source":
        after = [*range(200, 260), *range(300, 330)]
        twice = got[100 : -len(after)]  # what Spark's own source has read behind the cut before
        assert (got[:100], got[-len(after) :]) == ([*range(100)], after)
        assert {*twice} <= {*after}
        assert reader == "spark" or not twice
        begin = 100 + len(twice)
        assert translations(flow, topic_name, 80, 170) == [Exact(begin), Exact(begin + 90)]
    else:
        assert got == [*range(80), *range(200, 260), *range(80, 100), *range(300, 330)]
    (event,) = [each for each in stored(flow.tables, "events") if each.kind == "jumped"]
    assert "offset 80" in event.text
