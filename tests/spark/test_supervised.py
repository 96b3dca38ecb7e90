"""A background query restarts after a failure, and ends on request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.errors import ClusterError, LeaseError
from replication.flows.supervised import HeadStart, Supervised
from replication.spark.counting import trigger_stream
from tests.support.local import Until
from tests.support.mirror_files import FLOW
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def test_a_background_query_restarts_whatever_fails(
    spark: SparkSession, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[int] = []
    batches: list[int] = []
    stop = threading.Event()

    def batch(_rows: DataFrame, number: int) -> None:
        batches.append(number)
        if len(batches) == 1:
            raise ValueError("the first batch fails")

    def writer() -> DataStreamWriter:
        starts.append(len(starts))
        if len(starts) == 1:
            raise ClusterError("nobody there")
        if len(starts) == 2:
            raise KeyError("a mistake of ours")
        return (
            trigger_stream(spark)
            .writeStream.foreachBatch(batch)
            .trigger(processingTime="100 milliseconds")
        )

    thread = Supervised("checkpoints", spark, writer, stop)
    thread.start()
    until(lambda: len(batches) >= 3, 60)
    stop.set()
    wait_until(lambda: not thread.is_alive(), 30)

    assert not thread.is_alive()
    assert spark.streams.active == []
    assert starts == [0, 1, 2, 3]
    assert 'event=background_query_failed query=checkpoints text="nobody there"' in caplog.text
    assert "query=checkpoints text=Py4JException" in caplog.text
    own = [line for line in caplog.text.splitlines() if "background_query_failed" in line]
    assert "the first batch fails" not in str(own), "Spark's text may have what a record holds"
    assert 'query=checkpoints text="internal error, please report it"' in caplog.text
    assert "a mistake of ours" in caplog.text, "the traceback says where"


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_background_query_waits_for_the_records(
    spark: SparkSession, until: Until, *, is_stopped: bool
) -> None:
    began: list[bool] = []
    stop, head_start = threading.Event(), HeadStart([FLOW], longest_seconds=600)

    def writer() -> DataStreamWriter:
        began.append(head_start.is_over)
        return trigger_stream(spark).writeStream.format("noop")

    thread = Supervised("heartbeats", spark, writer, stop, head_start=head_start)
    thread.start()
    if not is_stopped:
        head_start.end(FLOW)
        until(lambda: spark.streams.active, 60)
    stop.set()
    wait_until(lambda: not thread.is_alive(), 30)

    assert not thread.is_alive()
    assert began == ([] if is_stopped else [True])


def test_a_background_query_without_its_lease_is_a_standby(
    spark: SparkSession, until: Until
) -> None:
    asked: list[None] = []
    began: list[int] = []
    stop = threading.Event()

    @contextmanager
    def lease() -> Iterator[None]:
        asked.append(None)
        if len(asked) < 3:
            raise LeaseError("another process has it")
        yield

    def writer() -> DataStreamWriter:
        began.append(len(asked))
        return trigger_stream(spark).writeStream.format("noop")

    thread = Supervised("checkpoints", spark, writer, stop, lease=lease)
    thread.start()
    until(lambda: spark.streams.active, 60)
    stop.set()
    wait_until(lambda: not thread.is_alive(), 30)

    assert began == [3]
