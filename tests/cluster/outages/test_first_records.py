"""A partition's first record is alone until the target has acknowledged it, and holds up no other.

A broker takes any sequence number of a producer that the partition does not know: if it refused the
first batch and took the second one, the first one would be out of order for ever.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker, BrokerSettings
from replication.demo.workload import ProducedRecord, create_topic
from replication.kafka.jvm import shared_jvm
from replication.model import Mode
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.process_tree import paused
from tests.support.proxy import FirstIsRefused, proxied_broker
from tests.support.topics import assert_equal, copied, send_records

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.guarantee,
    pytest.mark.timeout(600),
]

VALUE = b"what each record has as its value".ljust(500)
EACH = 2_000  # records of a partition: a few batches of the producer
RECORDS = [
    ProducedRecord(partition=partition, key=str(number).encode(), value=VALUE)
    for partition in (0, 1)
    for number in range(EACH)
]
ONE_TASK = {"replication.source": "shared", "tasks.max": "1"}


def unacknowledged() -> int:
    """The records of the flow on their way, also where no slot of Spark is free."""
    return int(shared_jvm().replication.producer.PreserveTimestamps.unacknowledged(str(FLOW)))


def test_a_target_that_stands_has_one_record_of_each_partition_on_its_way(
    spark: SparkSession,
    clusters: Clusters,
    own_process: Broker,
    tmp_path: Path,
    topic_name: str,
) -> None:
    """In Real-Time Mode: a micro-batch might have the records of the first partition alone."""
    both = (clusters[0], own_process)
    create_topic(clusters[0].bootstrap, topic_name, 3)
    send_records(clusters[0], topic_name, [replace(RECORDS[0], partition=2)])
    config = flow_config(*both, topic_name, ONE_TASK)
    flow = RunningFlow(spark, tmp_path / "state", config, "realtime")
    flow.until(lambda: copied(both, topic_name) == 1)  # its producer knows the topic's leaders

    assert own_process.pid
    with paused([own_process.pid]):
        send_records(clusters[0], topic_name, RECORDS)
        flow.until(lambda: unacknowledged() >= 2)
        on_their_way = unacknowledged()
    flow.until(lambda: copied(both, topic_name) > len(RECORDS))
    flow.stop()

    assert on_their_way == 2
    assert_equal(both, topic_name)


@pytest.mark.parametrize("mode", ["realtime", "microbatch"])
def test_a_first_batch_that_the_target_refuses_once_comes_before_the_second_one(
    spark: SparkSession,
    clusters: Clusters,
    broker_settings: BrokerSettings,
    tmp_path: Path,
    topic_name: str,
    mode: Mode,
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 2)
    send_records(clusters[0], topic_name, RECORDS)
    refusal = FirstIsRefused(VALUE)
    with proxied_broker("B", tmp_path / "B", broker_settings, refusal) as (target, proxy):
        both = (clusters[0], target)
        through = {**ONE_TASK, f"{FLOW.target}.bootstrap.servers": proxy.bootstrap}
        flow = RunningFlow(spark, tmp_path / "state", flow_config(*both, topic_name, through), mode)
        flow.until(lambda: refusal.was_sent or (refusal.is_held and unacknowledged() == 2))
        refusal.release()
        flow.until(lambda: copied(both, topic_name) >= len(RECORDS))
        flow.stop()

        assert_equal(both, topic_name)
