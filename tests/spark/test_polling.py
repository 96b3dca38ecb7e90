"""An idle query of micro-batches asks for new records no more often than its partitions allow."""

import pytest
from pyspark.sql import SparkSession

from replication.spark.counting import trigger_stream
from replication.spark.kafka_options import DELAY, limit_polling, polling_delay_ms
from replication.spark.session import flow_session

pytestmark = pytest.mark.spark

OWN_MS = 77
"""An operator's own value."""


@pytest.mark.parametrize(
    ("partitions", "delay_ms"), [(0, 10), (8, 10), (16, 16), (31, 25), (100, 25), (1000, 250)]
)
def test_the_more_partitions_the_longer_the_pause(partitions: int, delay_ms: int) -> None:
    assert polling_delay_ms(partitions) == delay_ms


@pytest.mark.parametrize(
    ("own", "partitions", "delay_ms"), [("", 1, 10), ("", 1000, 250), (f"{OWN_MS}ms", 1000, OWN_MS)]
)
def test_each_flow_pauses_for_its_own_partitions_unless_an_operator_wants_otherwise(
    spark: SparkSession, own: str, partitions: int, delay_ms: int
) -> None:
    session = flow_session(spark)
    session.conf.unset(DELAY)  # of the tests
    if own:
        session.conf.set(DELAY, own)
    limit_polling(session, partitions)

    query = trigger_stream(session).writeStream.format("noop").start()
    try:
        pause_ms = query._jsq.streamingQuery().pollingDelayMs()  # noqa: SLF001
    finally:
        query.stop()

    assert pause_ms == delay_ms


def test_a_later_query_pauses_for_its_own_partitions(spark: SparkSession) -> None:
    session = flow_session(spark)
    session.conf.unset(DELAY)

    for partitions in (1000, 1, 2000):
        limit_polling(session, partitions)

        assert session.conf.get(DELAY) == f"{polling_delay_ms(partitions)}ms"
