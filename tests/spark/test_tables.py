"""The Delta tables: this process and the next find every appended row."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import StateError
from replication.model import Flow, NewEvent, Position, TopicPartition
from replication.offsets.map import Exact, OffsetMap, TopicMap
from replication.offsets.runs import FinishedRuns, OffsetRun, anchor
from replication.state.offset_table import OffsetTable
from replication.state.schemas import SCHEMAS, WHOLE
from replication.state.table_reader import Anchor, StoredProgress
from replication.state.tables import Tables, reader_of
from tests.support.frames import frame
from tests.support.stored import spark_tables

pytestmark = pytest.mark.spark

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "id-1"}


def test_anchors_are_the_ends_of_the_newest_runs_of_the_flow(tables: Tables) -> None:
    runs = {ORDERS_0: [anchor(Position(0, 0)), OffsetRun(0, 10, 0, 10)], ORDERS_1: []}
    OffsetTable(tables, FLOW).append(FinishedRuns(1, runs, IDS))
    OffsetTable(tables, FLOW).append(FinishedRuns(2, {ORDERS_0: [OffsetRun(10, 25, 10, 9)]}, IDS))
    OffsetTable(tables, OTHER).append(FinishedRuns(9, {ORDERS_0: [OffsetRun(0, 99, 0, 99)]}, IDS))

    assert reader_of(tables).offsets(FLOW).progress() == StoredProgress(
        2, {ORDERS_0: Anchor(Position(25, 19), "id-1")}, {ORDERS_0: 25}
    )
    assert reader_of(tables).offsets(Flow("C", "D")).progress() == StoredProgress(0, {}, {})


def test_a_later_generation_counts_although_it_was_rewound(tables: Tables) -> None:
    OffsetTable(tables, FLOW).append(FinishedRuns(1, {ORDERS_0: [OffsetRun(0, 50, 0, 50)]}, IDS))
    OffsetTable(tables, FLOW).append(FinishedRuns(2, {ORDERS_0: [anchor(Position(40, 50))]}, IDS))

    progress = reader_of(tables).offsets(FLOW).progress()
    assert progress.anchors[ORDERS_0].position == Position(40, 50)
    assert progress.replicated_until == {ORDERS_0: 50}
    assert progress.placed == {ORDERS_0}, "nothing was copied since: the next record is tried alone"
    OffsetTable(tables, FLOW).append(FinishedRuns(3, {ORDERS_0: [OffsetRun(40, 41, 50, 1)]}, IDS))
    assert reader_of(tables).offsets(FLOW).progress().placed == frozenset()


def test_a_recreated_topic_has_a_new_map(tables: Tables) -> None:
    OffsetTable(tables, FLOW).append(FinishedRuns(1, {ORDERS_0: [OffsetRun(0, 50, 0, 50)]}, IDS))
    OffsetTable(tables, FLOW).append(
        FinishedRuns(2, {ORDERS_0: [OffsetRun(0, 5, 50, 5)]}, {"orders": "id-2"})
    )

    assert reader_of(tables).offsets(FLOW).runs(ORDERS_0) == [OffsetRun(0, 5, 50, 5)]


def test_events_can_be_queried(tables: Tables) -> None:
    tables.record_event(
        FLOW,
        "realigned",
        "why",
        reaction="at least once",
        topic="orders",
        partition=3,
        offset_until=7,
    )

    (row,) = frame(tables, "events").drop("at").collect()
    assert row.asDict() == {
        "flow": "A->B", "kind": "realigned", "group": None, "topic": "orders", "partition": 3,
        "offset_from": None, "offset_until": 7, "reaction": "at least once", "text": "why",
        "cluster": None,
    }  # fmt: skip


def test_many_events_are_one_commit(tables: Tables) -> None:
    events = [NewEvent("adopted", "why", "match", {"partition": number}) for number in range(50)]

    tables.record_events(FLOW, events)
    tables.record_events(FLOW, [])

    assert {row.partition for row in frame(tables, "events").collect()} == set(range(50))
    history = tables.spark.sql(f"DESCRIBE HISTORY delta.`{tables.path('events')}`")
    assert [row.version for row in history.collect()] == [1, 0]  # the first one creates the table


def test_a_state_directory_that_is_a_file_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    with pytest.raises(StateError, match=r"cannot append to table events at .*/file/events"):
        Tables(spark, blocked.as_uri()).append("events", [{"flow": str(FLOW), "kind": "restarted"}])


def test_an_event_that_cannot_be_written_is_written_with_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.write_text("not a folder yet")
    tables = Tables(spark, state.as_uri())
    tables.record_event(FLOW, "restarted", "first", reaction="retry")

    state.unlink()
    tables.record_event(FLOW, "restarted", "second", reaction="retry")

    rows = frame(tables, "events").orderBy("at").collect()
    assert [row.text for row in rows] == ["first", "second"]


def test_partial_maps_answer_like_the_whole_map(tables: Tables) -> None:
    table = OffsetTable(tables, FLOW)
    runs = [
        OffsetRun(0, 10, 0, 5),
        OffsetRun(10, 20, 5, 4),
        # 20 to 50 was skipped
        OffsetRun(50, 60, 9, 10),
        OffsetRun(60, 75, 19, 3),
    ]
    for generation, run in enumerate(runs):
        table.append(
            FinishedRuns(generation, {ORDERS_0: [run], ORDERS_1: [anchor(Position(7, 0))]}, IDS)
        )
    table.append(
        FinishedRuns(9, {TopicPartition("other", 0): [OffsetRun(0, 1, 0, 1)]}, {"other": "id-9"})
    )
    whole = OffsetMap(runs)

    found = {}
    for least in (0, 15, 30, 75, 99):
        found = (
            reader_of(tables)
            .offsets(FLOW)
            .maps({ORDERS_0: least, ORDERS_1: 7, TopicPartition("absent", 3): 0})
        )

        assert set(found) == {ORDERS_0, ORDERS_1}
        assert found[ORDERS_0].topic_id == "id-1"
        for committed in range(least, 100):
            expected = whole.translate(committed)
            assert found[ORDERS_0].offsets.translate(committed) == expected, (least, committed)
    assert isinstance(found[ORDERS_1].offsets.translate(7), Exact)


def test_maps_are_those_of_the_newest_topic(tables: Tables) -> None:
    table = OffsetTable(tables, FLOW)
    table.append(FinishedRuns(1, {ORDERS_0: [OffsetRun(0, 50, 0, 50)]}, IDS))
    table.append(FinishedRuns(2, {ORDERS_0: [OffsetRun(0, 5, 50, 5)]}, {"orders": "id-2"}))

    found = reader_of(tables).offsets(FLOW).maps({ORDERS_0: 3})

    assert found == {ORDERS_0: TopicMap("id-2", found[ORDERS_0].offsets)}
    assert found[ORDERS_0].offsets.translate(3) == Exact(53)


VALUES = {
    "string": "A->B, \u00e4 'quoted'",
    "bigint": 2**53 + 1,
    "double": 0.1,
    "int": -7,
    "boolean": False,
    "binary": b"\x00\xff",
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc),
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_both_libraries_append_the_same_rows_to_one_table(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    tables = Tables(spark, tmp_path.as_uri())
    columns = [column.split() for column in SCHEMAS[name].split(", ")]
    full = {column: VALUES[kind] for column, kind in columns}

    tables.append(name, [full, {"flow": "A->B"}])
    spark_tables(tables).append(name, [full, {"flow": "A->B"}])

    rows = [
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
        for row in frame(tables, name).select(*full).collect()
    ]
    spark_files = {Path(file).name for file in frame(tables, name).inputFiles()}
    of_an_append = 1 if name in WHOLE else 2
    assert len(spark_files) == 2 * of_an_append, "each append wrote a file for each of two flows"
    assert len(rows) == 4
    assert len(set(rows)) == 2, "each row stands there twice"
    assert frame(tables, name).where(f"flow = {json.dumps(full['flow'])}").count() == 2


def test_the_files_of_many_appends_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path.as_uri(), most_files=3)

    for number in range(3):
        tables.record_event(FLOW, "restarted", str(number), reaction="retry")

    assert len(frame(tables, "events").inputFiles()) == 1
    assert {row.text for row in frame(tables, "events").collect()} == {"0", "1", "2"}


def test_many_threads_may_create_a_table_at_once(tables: Tables) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda number: tables.record_event(
                    FLOW, "restarted", str(number), reaction="retry"
                ),
                range(4),
            )
        )

    assert {row.text for row in frame(tables, "events").collect()} == {"0", "1", "2", "3"}
