"""A query keeps as many progress events as its partitions allow, whatever other queries keep."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from replication.spark.frames import trigger_stream
from replication.spark.progress import FEWEST_EVENTS, keep_events, kept_events
from replication.spark.session import flow_session
from tests.support.local import Until

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("partitions", "events"), [(0, 1000), (1, 1000), (500, 1000), (5000, 100), (10**6, 10)]
)
def test_many_partitions_keep_few_events(partitions: int, events: int) -> None:
    assert kept_events(partitions) == events


def test_flows_of_one_process_keep_different_numbers_of_events(
    spark: SparkSession, until: Until
) -> None:
    queries = {partitions: query_over(spark, partitions) for partitions in (10**6, 1)}
    try:
        until(lambda: batches(queries[10**6]) > 2 * FEWEST_EVENTS, 60)
        until(lambda: batches(queries[1]) > 2 * FEWEST_EVENTS, 60)
        kept = {number: len(query.recentProgress) for number, query in queries.items()}
    finally:
        for query in queries.values():
            query.stop()

    assert 0 < kept[10**6] <= FEWEST_EVENTS
    assert kept[1] > 2 * FEWEST_EVENTS


def query_over(spark: SparkSession, partitions: int) -> StreamingQuery:
    """A query of a flow's own session, as fast as it can be."""
    own = flow_session(spark)
    keep_events(own, partitions)
    return trigger_stream(own).writeStream.format("noop").start()


def batches(query: StreamingQuery) -> int:
    last = query.lastProgress
    return last["batchId"] if last else 0
