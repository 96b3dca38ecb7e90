"""The books: what is appended is found again, by this process and the next."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import StateError
from replication.io import tables as tables_module
from replication.io.tables import Anchor, Books, Tables
from replication.model import Flow, Position, TopicPartition
from replication.runs import OffsetRun, anchor

pytestmark = pytest.mark.spark

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "id-1"}


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path.as_uri())


def test_anchors_are_the_ends_of_the_newest_runs_of_the_flow(tables: Tables) -> None:
    runs = {ORDERS_0: [anchor(Position(0, 0)), OffsetRun(0, 10, 0, 10)], ORDERS_1: []}
    tables.append_runs(FLOW, 1, runs, IDS)
    tables.append_runs(FLOW, 2, {ORDERS_0: [OffsetRun(10, 25, 10, 9)]}, IDS)
    tables.append_runs(OTHER, 9, {ORDERS_0: [OffsetRun(0, 99, 0, 99)]}, IDS)

    assert tables.books(FLOW) == Books(2, {ORDERS_0: Anchor(Position(25, 19), "id-1")})
    assert tables.books(Flow("C", "D")) == Books(0, {})


def test_a_later_generation_counts_although_it_was_set_back(tables: Tables) -> None:
    tables.append_runs(FLOW, 1, {ORDERS_0: [OffsetRun(0, 50, 0, 50)]}, IDS)
    tables.append_runs(FLOW, 2, {ORDERS_0: [anchor(Position(40, 50))]}, IDS)

    assert tables.books(FLOW).anchors[ORDERS_0].position == Position(40, 50)


def test_the_map_of_a_recreated_topic_starts_anew(tables: Tables) -> None:
    tables.append_runs(FLOW, 1, {ORDERS_0: [OffsetRun(0, 50, 0, 50)]}, IDS)
    tables.append_runs(FLOW, 2, {ORDERS_0: [OffsetRun(0, 5, 50, 5)]}, {"orders": "id-2"})

    assert tables.runs(FLOW, ORDERS_0) == [OffsetRun(0, 5, 50, 5)]
    assert tables.runs(FLOW, ORDERS_0, "id-1") == [OffsetRun(0, 50, 0, 50)]


def test_compaction_changes_rows_and_not_answers(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "COMPACT_ABOVE_ROWS", 5)
    sparse = OffsetRun(60, 90, 60, 7)
    for start in range(0, 60, 10):
        tables.append_runs(FLOW, start, {ORDERS_0: [OffsetRun(start, start + 10, start, 10)]}, IDS)
    tables.append_runs(FLOW, 70, {ORDERS_0: [sparse]}, IDS)
    tables.append_runs(OTHER, 1, {ORDERS_0: [OffsetRun(0, 99, 0, 99)]}, IDS)
    map_before, rows_before = tables.runs(FLOW, ORDERS_0), tables.of("offset_runs", FLOW).count()

    before = tables.books(FLOW)

    assert tables.books(FLOW) == before
    assert tables.runs(FLOW, ORDERS_0) == map_before
    assert rows_before == 7
    assert tables.of("offset_runs", FLOW).count() == 2
    assert tables.of("offset_runs", OTHER).count() == 1


def test_events_can_be_queried(tables: Tables) -> None:
    tables.event(FLOW, "realigned", "why", topic="orders", partition=3, offset_until=7)

    (row,) = tables.read("events").drop("at").collect()
    assert row.asDict() == {
        "flow": "A->B", "kind": "realigned", "topic": "orders", "partition": 3,
        "offset_from": None, "offset_until": 7, "policy": None, "text": "why",
    }  # fmt: skip


def test_a_state_directory_that_is_a_file_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    with pytest.raises(StateError, match=r"cannot append to table events at .*/file/events"):
        Tables(spark, blocked.as_uri()).event(FLOW, "kind", "text")
