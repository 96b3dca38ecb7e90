"""Old rows, old files and the old log of the tables go; what readers and owners need stays."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.group_settings import StateConfig
from replication.flows.replicate import maintain
from replication.flows.replicate.maintain import maintained_tables
from replication.flows.replicate.map_writer import TopicRows
from replication.model import Flow, TopicPartition
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.state.delta import DeltaReader
from replication.state.maintenance import Maintenance
from replication.state.offset_table import OffsetTable
from replication.state.schemas import PROPERTIES, short_properties
from replication.state.table_reader import OffsetReader
from replication.state.tables import SparkReader, Tables
from replication.topics.topic_plan import TopicPlan
from tests.support.flows import flow_context
from tests.support.frames import frame
from tests.support.local import Until
from tests.support.said import SaidLines
from tests.support.settings import ONE_FLOW, parse_settings
from tests.support.stored import spark_tables

pytestmark = pytest.mark.spark

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
ORDERS_0 = TopicPartition("orders", 0)
NOW = datetime.now(timezone.utc)
CONFIG = StateConfig(
    write_interval_seconds=30,
    retention_days={"events": 30, "checkpoints": 7, "leases": 30, "executions": 30},
)
AT_ONCE: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 0 hours",
}


def append_run(tables: Tables, start: int) -> None:
    run = OffsetRun(start, start + 10, start, 10)
    OffsetTable(tables, FLOW).append(FinishedRuns(1, {ORDERS_0: [run]}, {"orders": "id-1"}))


def readers(tables: Tables) -> list[OffsetReader]:
    """Spark and delta-rs, as they read the map."""
    by_spark = SparkReader(spark_tables(tables))
    return [by_spark.offsets(FLOW), DeltaReader(tables.root).offsets(FLOW)]


def files(tables: Tables, table: str, pattern: str) -> set[str]:
    return {file.name for file in (folder(tables) / table).glob(pattern)}


def folder(tables: Tables) -> Path:
    return Path(tables.root.removeprefix("file://"))


@pytest.mark.parametrize(
    "name",
    ["state", pytest.param("my%20state", marks=pytest.mark.soak)],  # the second is Spark's to write
)
def test_old_rows_of_the_flow_are_deleted(spark: SparkSession, tmp_path: Path, name: str) -> None:
    tables = Tables(spark, (tmp_path / name).as_uri())
    rows = [
        {"flow": str(flow), "topic": f"{days} days", "at": NOW - timedelta(days=days)}
        for flow in (FLOW, OTHER)
        for days in (6, 8, 29, 31)
    ]
    tables.append("events", rows)
    tables.append("checkpoints", rows)

    Maintenance(tables, FLOW, CONFIG).run(NOW)

    def left(table: str, flow: Flow) -> set[str]:
        return {row["topic"] for row in frame(tables, table, flow).collect()}

    assert left("events", FLOW) == {"6 days", "8 days", "29 days"}
    assert left("checkpoints", FLOW) == {"6 days"}
    assert left("events", OTHER) == left("checkpoints", OTHER) != left("events", FLOW)


def test_the_newest_owner_of_each_lease_stays_however_old(tables: Tables) -> None:
    def owner(lease: str, epoch: int, days: int) -> dict[str, object]:
        return {"flow": lease, "epoch": epoch, "renewed": NOW - timedelta(days=days)}

    tables.append(
        "leases",
        [
            *(owner("A->B", epoch, days) for epoch, days in ((1, 99), (2, 50), (3, 40))),
            *(owner("A->B metadata", epoch, days) for epoch, days in ((1, 45), (2, 29))),
            *(owner("A->Bee", epoch, days) for epoch, days in ((1, 99), (2, 98))),
        ],
    )

    Maintenance(tables, FLOW, CONFIG).run(NOW)

    left = frame(tables, "leases").select("flow", "epoch").orderBy("flow", "epoch").collect()
    assert [tuple(row) for row in left] == [
        ("A->B", 3), ("A->B metadata", 2), ("A->Bee", 1), ("A->Bee", 2),
    ]  # fmt: skip


def test_it_is_due_once_a_day_for_each_flow_whichever_process_does_it(tables: Tables) -> None:
    def is_due(flow: Flow, later: timedelta) -> bool:
        return Maintenance(tables, flow, CONFIG).is_due(NOW + later)

    assert not is_due(FLOW, timedelta(days=9))  # there are no tables
    append_run(tables, 0)
    assert not is_due(FLOW, timedelta(hours=23))  # they are new
    assert is_due(FLOW, timedelta(hours=25))

    Maintenance(tables, FLOW, CONFIG).run(NOW + timedelta(hours=25))

    assert not is_due(FLOW, timedelta(hours=48))
    assert is_due(FLOW, timedelta(hours=49))
    assert is_due(OTHER, timedelta(hours=25))


def test_what_was_interrupted_is_still_due(tables: Tables) -> None:
    append_run(tables, 0)
    steps, tomorrow = iter([False, False, True, True]), NOW + timedelta(days=2)

    Maintenance(tables, FLOW, CONFIG).run(tomorrow, lambda: next(steps))

    assert Maintenance(tables, FLOW, CONFIG).is_due(tomorrow)


def test_new_tables_and_those_of_an_earlier_version_drop_their_old_log(
    spark: SparkSession, tables: Tables
) -> None:
    append_run(tables, 0)
    new = tables.properties("offset_runs")
    (spark.range(1).selectExpr("'A->B' AS flow", "'' AS kind", "current_timestamp() AS at")
        .write.format("delta").partitionBy("flow").save(tables.path("events")))  # fmt: skip
    tables.set_properties("events", {"delta.logRetentionDuration": "interval 30 days"})

    Maintenance(tables, FLOW, CONFIG).run(NOW)

    old = tables.properties("events")
    assert short_properties("offset_runs").items() <= new.items()
    assert old == {**PROPERTIES, "delta.logRetentionDuration": "interval 30 days"}


def test_files_go_when_their_retention_is_over_and_every_reader_reads_on(tables: Tables) -> None:
    for start in range(0, 30, 10):
        append_run(tables, start)
    Maintenance(tables, FLOW, CONFIG).run(NOW)
    kept = files(tables, "offset_runs", "flow=*/*.parquet")
    tables.set_properties("offset_runs", AT_ONCE)

    Maintenance(tables, FLOW, CONFIG).run(NOW)

    assert len(kept) == 4  # three appends, and the file that they were merged into
    assert len(files(tables, "offset_runs", "flow=*/*.parquet")) == 1
    for reader in readers(tables):
        assert reader.runs(ORDERS_0) == [OffsetRun(0, 30, 0, 30)]


def test_a_vacuum_commits_nothing(tables: Tables) -> None:
    append_run(tables, 0)
    before = files(tables, "offset_runs", "_delta_log/*.json")

    tables.vacuum("offset_runs")

    assert files(tables, "offset_runs", "_delta_log/*.json") == before


def test_the_log_of_past_days_goes_while_a_flow_appends(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(spark, tmp_path.as_uri(), most_files=5)
    append_run(tables, 0)
    log = folder(tables) / "offset_runs" / "_delta_log"
    three_days_ago = time.time() - 3 * 86_400
    for number in range(1, 11):
        append_run(tables, 10 * number)
        for file in log.glob("*.json"):
            os.utime(file, (three_days_ago, three_days_ago))
    for number in range(11, 21):
        append_run(tables, 10 * number)

    assert min(files(tables, "offset_runs", "_delta_log/0*.json")) > f"{4:020}"
    for reader in readers(tables):
        assert reader.runs(ORDERS_0) == [OffsetRun(0, 210, 0, 210)]


@pytest.mark.parametrize("mode", ["drain", "microbatch"])
def test_the_owner_of_a_flow_maintains_the_tables(
    spark: SparkSession, tables: Tables, until: Until, mode: str
) -> None:
    append_run(tables, 0)
    config = replace(parse_settings({**ONE_FLOW, "replication.mode": mode}).flows[0], state=CONFIG)
    context, tomorrow = flow_context(spark, tables, config), NOW + timedelta(days=2)

    def is_done() -> bool:
        return not Maintenance(tables, FLOW, CONFIG).is_due(tomorrow)

    with maintained_tables(context, threading.Event(), first_seconds=0.0, clock=lambda: tomorrow):
        during: Callable[[], bool] = is_done if mode == "microbatch" else lambda: not is_done()
        until(during, 30)

    assert is_done()


def test_maintenance_goes_on_after_an_error_that_nobody_foresaw(
    spark: SparkSession,
    tables: Tables,
    until: Until,
    said: SaidLines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append_run(tables, 0)
    monkeypatch.setattr(maintain, "CHECK_SECONDS", 0.1)
    config = replace(parse_settings(ONE_FLOW).flows[0], state=CONFIG)
    context, tomorrow = flow_context(spark, tables, config), NOW + timedelta(days=2)
    naive = iter([tomorrow.replace(tzinfo=None)])  # cannot be compared with the table's time

    def clock() -> datetime:
        return next(naive, tomorrow)

    with maintained_tables(context, threading.Event(), first_seconds=0.0, clock=clock):
        until(lambda: not Maintenance(tables, FLOW, CONFIG).is_due(tomorrow), 30)

    assert [line.flow for line in said.of("maintenance_failed")] == [str(FLOW)]


def test_unchanged_topics_are_not_recorded_again(tables: Tables) -> None:
    def plan(topic_id: str) -> TopicPlan:
        return TopicPlan(
            {"orders": "A.orders"}, (), {}, (ORDERS_0,), {"orders": topic_id}, {"A.orders": "copy"}
        )

    for generation, topic_id in ((1, "id-1"), (2, "id-1"), (4, "id-2")):
        TopicRows(tables, FLOW).record(plan(topic_id), generation)
    rows = TopicRows(tables, FLOW)
    rows.record(plan("id-2"), 5)

    recorded = frame(tables, "topics", FLOW).orderBy("generation").collect()
    assert [(row["generation"], row["topic_id"]) for row in recorded] == [(1, "id-1"), (4, "id-2")]
    assert rows.remote_ids == {"A.orders": "copy"}
