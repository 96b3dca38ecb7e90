"""Records on their way when a query stops: nobody reads where the target ends before they came."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import BrokerSettings
from replication.demo.workload import create_topic
from replication.spark.kafka_options import unacknowledged
from replication.spark.session import task_slots
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.proxy import proxied_broker
from tests.support.said import SaidLines
from tests.support.stored import stored
from tests.support.topics import assert_equal, copied, send

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.guarantee]


def test_positions_are_not_read_while_records_are_in_flight_to_logs_that_stand_still(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    said: SaidLines,
) -> None:
    with proxied_broker("B", tmp_path / "target", broker_settings) as (target, proxy):
        both = (clusters[0], target)
        create_topic(clusters[0].bootstrap, topic_name, 2)
        send(clusters[0], topic_name, 2, 100)
        more = {
            "B.producer.bootstrap.servers": proxy.bootstrap,
            "emit.offset-syncs.enabled": "false",
            "refresh.topics.interval.seconds": "600",
        }
        config = flow_config(*both, topic_name, more)
        flow = RunningFlow(spark, tmp_path / "state", config, "microbatch")
        flow.until(lambda: copied(both, topic_name) >= 100)

        proxy.cut()  # only the producer is behind it: the target answers all questions
        send(clusters[0], topic_name, 2, 100)
        flow.until(lambda: unacknowledged(spark, FLOW, task_slots(spark)) > 0)
        flow.stop()

        assert ["may still write" in line.text for line in said.of("last_batch_not_recorded")] == [
            True
        ]
        rows = stored(flow.tables, "leases", order="renewed")
        assert [(row.epoch, row.released) for row in rows] == [(1, False)]

        again = RunningFlow(spark, tmp_path / "state", config, "drain")
        proxy.heal()
        again.join()
        assert_equal(both, topic_name)
