"""Tables that take no rows for a while: what can wait is said, and waits, and nothing is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.model import Flow, Position, TopicPartition
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables, now, reader_of
from tests.support.damage import data_gone
from tests.support.frames import frame
from tests.support.said import SaidLines

pytestmark = pytest.mark.spark

FLOW = Flow("A", "B")
TP = TopicPartition("t", 0)


@contextmanager
def locked(state: Path, table: str) -> Iterator[None]:
    """Keeps everybody from committing to *table*: a folder cannot be locked."""
    lock = state / "_locks" / f"{table}.commit"
    lock.unlink()
    lock.mkdir()
    yield
    lock.rmdir()


def test_an_event_that_cannot_be_written_is_written_with_the_next_one(
    tables: Tables, tmp_path: Path, said: SaidLines
) -> None:
    tables.record_event(FLOW, "restarted", "first", reaction="retry")
    with locked(tmp_path, "events"):
        tables.record_event(FLOW, "set-aside", "second", reaction="fail")
    tables.record_event(FLOW, "restarted", "third", reaction="retry")

    rows = frame(tables, "events").orderBy("at").collect()
    assert [row.text for row in rows] == ["first", "second", "third"]
    (line,) = said.of("event_not_written")
    assert (line.flow, line.fields) == ("A->B", {"kind": "set-aside"})


def test_rows_are_appended_although_small_files_cannot_be_merged(
    spark: SparkSession, tmp_path: Path, said: SaidLines
) -> None:
    tables = Tables(spark, tmp_path.as_uri(), most_files=3)
    for number in range(3):
        if number == 2:
            data_gone(tmp_path / "events")  # which only those see who read it
        tables.append("events", [{"flow": str(FLOW), "at": now(), "kind": "adopted"}])

    assert len(list(tmp_path.glob("events/flow=*/*.parquet"))) == 1, "the row is there"
    (line,) = said.of("optimize_failed")
    assert line.fields == {"table": "events"}


def test_runs_are_appended_although_the_map_cannot_be_compacted(
    tables: Tables, tmp_path: Path, said: SaidLines
) -> None:
    table = OffsetTable(tables, FLOW, compact_after=3)

    def append(number: int) -> None:
        run = OffsetRun(number, number + 1, number, 1)
        table.append(FinishedRuns(1, {TP: [run]}, {"t": "id"}))

    for number in (0, 1):
        append(number)
    (hidden,) = {file.rename(file.with_suffix(".away")) for file in newest_data(tmp_path)}
    append(2)
    hidden.rename(hidden.with_suffix(".parquet"))
    for number in (3, 4, 5):
        append(number)

    assert [line.flow for line in said.of("compaction_failed")] == ["A->B"]
    assert len(said.of("map_compacted")) == 1, "the next one is due after as many rows"
    assert reader_of(tables).offsets(FLOW).runs(TP) == [OffsetRun(0, 6, 0, 6)]
    assert reader_of(tables).offsets(FLOW).progress().anchors[TP].position == Position(6, 6)


def newest_data(state: Path) -> list[Path]:
    """The newest data file of the offset map."""
    files = state.glob("offset_runs/flow=*/*.parquet")
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)[-1:]
