"""An idle query of micro-batches asks for new records no more often than its partitions allow."""

import pytest
from pyspark.sql import SparkSession

from replication.spark.frames import trigger_stream
from replication.spark.polling import LEAST_MS, limit_polling, polling_delay_ms
from replication.spark.session import flow_session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("partitions", "delay_ms"), [(0, 25), (31, 25), (1000, 250)])
def test_the_more_partitions_the_longer_the_pause(partitions: int, delay_ms: int) -> None:
    assert polling_delay_ms(partitions) == delay_ms


@pytest.mark.parametrize("partitions", [1, 1000])
def test_each_flow_pauses_for_its_own_partitions(spark: SparkSession, partitions: int) -> None:
    own = flow_session(spark)
    limit_polling(own, partitions)

    query = trigger_stream(own).writeStream.format("noop").start()
    try:
        pause = query._jsq.streamingQuery().pollingDelayMs()  # noqa: SLF001
    finally:
        query.stop()

    assert pause == polling_delay_ms(partitions) >= LEAST_MS
