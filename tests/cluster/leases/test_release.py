"""The end of a lease with records on their way: it is no release, and the process still ends."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.spark.kafka_options import unacknowledged
from replication.spark.session import task_slots
from tests.support.commands import replication, start_mirror
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters, Until
from tests.support.mirror_files import FLOW, write_config
from tests.support.said import SaidLines
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, fill, send
from tests.support.two_brokers import create_spread_topic, two_brokers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

IMPATIENT = {
    "A.admin.default.api.timeout.ms": "2000",
    "B.admin.default.api.timeout.ms": "2000",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "refresh.topics.interval.seconds": "600",
}


@pytest.mark.spark
@pytest.mark.guarantee
def test_a_lease_that_ends_with_records_in_flight_is_not_recorded_as_released(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
) -> None:
    with two_brokers(tmp_path / "target", broker_settings) as (first, second):
        both = (clusters[0], first)
        fill(clusters[0], topic_name, 2, 100)
        create_spread_topic(first, f"A.{topic_name}")
        config = flow_config(*both, topic_name, IMPATIENT)
        flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
        flow.until(lambda: copied(both, topic_name) >= 100)

        second.kill()  # it leads one of the partitions
        send(clusters[0], topic_name, 2, 100)
        flow.until(lambda: unacknowledged(spark, FLOW, task_slots(spark)) > 0)
        flow.stop()
        rows = stored(flow.tables, "leases", order="renewed")
        second.start()
        again = RunningFlow(spark, tmp_path / "state", config, "drain")
        again.join()

        assert [(row.epoch, row.released) for row in rows] == [(1, False)]
        assert ["next start will" in line.text for line in said.of("last_batch_not_recorded")] == [
            True
        ]
        assert stored(again.tables, "leases", order="renewed")[-1].released
        assert_equal(both, topic_name)


@pytest.mark.job
def test_a_job_that_is_stopped_ends_although_its_target_is_down(
    clusters: Clusters, own_broker: Broker, tmp_path: Path, topic_name: str, until: Until
) -> None:
    both = (clusters[0], own_broker)
    fill(clusters[0], topic_name, 2, 1000)
    more = {
        "emit.heartbeats.enabled": False,
        "replication.mode": "microbatch",
        "B.admin.default.api.timeout.ms": 2000,
        "groups": ["none"],
        "refresh.topics.interval.seconds": 1,
    }
    file = write_config(tmp_path, both, topic_name, more)
    mirror = start_mirror(file, tmp_path / "mirror.log")
    try:
        until(lambda: copied(both, topic_name) >= 1000, 60)
        own_broker.kill()
        send(clusters[0], topic_name, 2, 20_000)  # more than the producer's buffer holds
        until(lambda: "event=topic_refresh_failed" in mirror.log.read_text(), 60)
        replication("stop", file)
        until(lambda: mirror.exit_code is not None, 20)
    finally:
        mirror.discard()
