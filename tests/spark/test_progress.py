"""Progress events: how many a query keeps, and that an idle one's cost nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from replication.model import Flow
from replication.spark.acknowledged import Acknowledged
from replication.spark.counting import trigger_stream
from replication.spark.progress import FEWEST_EVENTS, QueryProgress, keep_events, kept_events
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


def test_an_idle_query_is_looked_at_once_however_many_events_it_keeps(
    spark: SparkSession, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = flow_session(spark)
    own.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200ms")
    reports = Acknowledged(own, Flow("A", "B"), 1)
    lines = own.readStream.schema("line string").text(str(tmp_path))
    query = lines.writeStream.format("noop").start()
    progress = QueryProgress(query, query.name, {})
    read: list[str] = []
    loads = json.loads

    def counted(text: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 - as json.loads
        if '"batchId"' in text:  # other threads of the process read JSON, too
            read.append(text)
        return loads(text, *rest, **more)

    def kept() -> int:
        return len(query._jsq.recentProgress())  # noqa: SLF001 - without parsing them

    def caught_up() -> bool:
        assert progress.finished() == []
        return reports.is_quiet(progress.query, progress.newest)

    monkeypatch.setattr("replication.spark.progress.json.loads", counted)
    try:
        until(lambda: kept() >= 5, 30)
        assert not reports.is_quiet(progress.query, progress.newest)
        until(caught_up, 30)
        first = len(read)
        until(lambda: kept() >= first + 3, 30)
        until(caught_up, 30)
        assert len(set(read)) == len(read) <= kept()
    finally:
        query.stop()
        reports.close()

    assert first >= 5
    assert not caught_up()  # it has ended


def query_over(spark: SparkSession, partitions: int) -> StreamingQuery:
    """A query of a flow's own session, as fast as it can be."""
    own = flow_session(spark)
    keep_events(own, partitions)
    return trigger_stream(own).writeStream.format("noop").start()


def batches(query: StreamingQuery) -> int:
    last = query.lastProgress
    return last["batchId"] if last else 0
