"""A consumer that waits long at its broker delays no record, whatever ends its wait."""

from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.demo.workload import send_transactions
from replication.model import Flow
from tests.support.flows import RunningFlow, flow_config
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW
from tests.support.topics import copied, fill, plain
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

WAIT_SECONDS = 25
"""Longer than a Real-Time batch of the tests, and shorter than a request may take."""

AT_ONCE_SECONDS = 4


def last_batch(spark: SparkSession, flow: Flow) -> tuple[str, int] | None:
    """The newest finished batch of the flow's query, and which run of it; None if there is none."""
    for query in spark.streams.active:
        if query.name and query.name.startswith(f"{flow.slug} ") and query.lastProgress:
            return str(query.runId), query.lastProgress.batchId
    return None


def test_a_transaction_ends_the_wait_of_an_idle_partition_in_each_batch(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    source, target = clusters
    fill(source, topic_name, 2, 10)
    settings = {"A.consumer.fetch.max.wait.ms": str(1000 * WAIT_SECONDS)}
    config = flow_config(source, target, topic_name, settings)
    flow = RunningFlow(spark, tmp_path, config, "realtime")
    flow.until(lambda: copied(clusters, topic_name) == 10)

    def copy_one_more() -> None:
        batch, number = last_batch(spark, FLOW), copied(clusters, topic_name)
        flow.until(lambda: last_batch(spark, FLOW) not in {None, batch})
        with in_time(AT_ONCE_SECONDS, "a record of an idle partition"):
            send_transactions(source.bootstrap, topic_name, islice(plain(2), 1), records_each=1)
            flow.until(lambda: copied(clusters, topic_name) > number)

    for _ in range(3):
        copy_one_more()
    with in_time(AT_ONCE_SECONDS, "the stop"):
        flow.stop()
