"""The interceptor in Spark's producer: a record without its timestamp must not be replicated."""

import time

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from replication.demo.brokers import Broker
from replication.demo.topic_log import log_ends
from replication.demo.workload import create_topic
from replication.model import Flow
from replication.spark.interceptor import unacknowledged
from replication.spark.kafka_options import sink_options

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FLOW = Flow("X", "Y")
GOOD = (
    "array(named_struct('key', '__replication.origin', "
    "'value', X'00000000000000010000000000000007'))"
)
SHORT = "array(named_struct('key', '__replication.origin', 'value', X'01'))"
OTHER = "array(named_struct('key', 'other', 'value', X'0000000000000001'))"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param(
            "cast(null as array<struct<key:string,value:binary>>)", "no carrier", id="none"
        ),
        pytest.param(OTHER, "no carrier header", id="another header"),
        pytest.param(SHORT, "not 16 bytes", id="a short one"),
    ],
)
def test_a_record_without_its_timestamp_fails_the_query_and_is_not_written(
    spark: SparkSession, clusters: tuple[Broker, Broker], topic_name: str, headers: str, reason: str
) -> None:
    target = clusters[1].bootstrap
    create_topic(target, topic_name, 1)
    options = sink_options({"bootstrap.servers": target}, FLOW, intercepted=True)
    row = f"select X'01' as value, 0 as partition, '{topic_name}' as topic, {headers} as headers"
    started = time.monotonic()

    with pytest.raises(Py4JJavaError, match=reason):
        spark.sql(row).write.format("kafka").options(**options).save()

    assert time.monotonic() - started < 30, "it must fail at once, not wait for metadata"
    assert log_ends(target, [topic_name]) == {topic_name: 0}
    assert unacknowledged(spark, FLOW) == 0


def test_sent_records_are_acknowledged_in_the_end(
    spark: SparkSession, clusters: tuple[Broker, Broker], topic_name: str
) -> None:
    target = clusters[1].bootstrap
    create_topic(target, topic_name, 1)
    options = sink_options({"bootstrap.servers": target}, FLOW, intercepted=True)
    row = f"select X'01' as value, 0 as partition, '{topic_name}' as topic, {GOOD} as headers"

    spark.sql(row).write.format("kafka").options(**options).save()

    assert log_ends(target, [topic_name]) == {topic_name: 1}
    assert unacknowledged(spark, FLOW) == 0
