"""The interceptor in Spark's producer: a record without its timestamp must not be replicated."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.model import Flow
from replication.spark.kafka_options import CARRIER, sink_options, unacknowledged
from replication.spark.session import task_slots
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FLOW = Flow("X", "Y")
TIME_AND_OFFSET = "00000000000000010000000000000007"
GOOD = f"X'{CARRIER.hex()}{TIME_AND_OFFSET}'"
SHORT = f"X'{CARRIER.hex()}01'"
OTHER = f"X'00000000{TIME_AND_OFFSET}'"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("cast(null as binary)", id="none"),
        pytest.param(OTHER, id="another beginning"),
        pytest.param(SHORT, id="a short one"),
    ],
)
def test_a_record_without_its_timestamp_fails_the_query_and_is_not_written(
    spark: SparkSession, clusters: tuple[Broker, Broker], topic_name: str, key: str
) -> None:
    target = clusters[1].bootstrap
    create_topic(target, topic_name, 1)
    options = sink_options({"bootstrap.servers": target}, FLOW, intercepted=True)
    row = f"select X'01' as value, 0 as partition, '{topic_name}' as topic, {key} as key"

    with (
        in_time(15, "the failure, which must not wait for metadata"),
        pytest.raises(Py4JJavaError, match="a key without a carrier"),
    ):
        spark.sql(row).write.format("kafka").options(**options).save()

    assert log_ends(target, [topic_name]) == {topic_name: 0}
    assert unacknowledged(spark, FLOW, task_slots(spark)) == 0


def test_sent_records_are_acknowledged_in_the_end(
    spark: SparkSession, clusters: tuple[Broker, Broker], topic_name: str
) -> None:
    target = clusters[1].bootstrap
    create_topic(target, topic_name, 1)
    options = sink_options({"bootstrap.servers": target}, FLOW, intercepted=True)
    row = f"select X'01' as value, 0 as partition, '{topic_name}' as topic, {GOOD} as key"

    spark.sql(row).write.format("kafka").options(**options).save()

    assert log_ends(target, [topic_name]) == {topic_name: 1}
    assert unacknowledged(spark, FLOW, task_slots(spark)) == 0
