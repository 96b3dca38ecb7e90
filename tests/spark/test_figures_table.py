"""Figures by the minute reach their table, and are read back as `serve` shows them."""

import logging
from pathlib import Path

import pytest

from replication.app.view import FiguresWriter
from replication.figures.minutes import CountedMinutes, Minute
from replication.figures.observation import Observation, Owner, TopicFigures
from replication.model import Flow
from replication.state.delta import DeltaReader, LocalTable
from replication.state.figures_table import FIGURES, count_minutes, rows_of, stored_figures
from replication.state.schemas import SCHEMAS
from replication.state.tables import Tables
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

AB = Flow("A", "B")
BEGIN = 1_800_000_000.0


def look(at: float, records: float, owner: Owner | None) -> Observation:
    lag = at / 10
    figures = {"records_total": records, "lag_seconds": lag, "unpaused_lag_seconds": lag}
    topic = TopicFigures("orders", "A.orders", "copying", "", figures)
    return Observation(
        AB, BEGIN + at, "running", BEGIN, owner=owner, figures=figures, topics=(topic,)
    )


def write(writer: FiguresWriter, minutes: int, owner: Owner | None) -> None:
    for at in range(0, minutes * 60 + 1, 30):
        writer(look(float(at), at * 2.0, owner))


def test_rows_come_together_and_are_read_by_minute(tables: Tables, tmp_path: Path) -> None:
    writer = FiguresWriter(tables)
    write(writer, 3, Owner("etl-7", 1, BEGIN))
    assert not (tmp_path / "figures" / "_delta_log").exists()  # not before it is due
    writer.close()

    state = DeltaReader(tmp_path.as_uri())
    found = stored_figures(state, AB, None, BEGIN + 60)
    assert [at for at, _ in found] == [BEGIN + 60, BEGIN + 120]
    assert [row["records_per_second"] for _, row in found] == [2, 2]
    assert [row["lag_seconds"] for _, row in found] == [9, 15]
    assert len(stored_figures(state, AB, "orders", BEGIN)) == 3
    # lags of 3 or more, 9 and 15 seconds
    assert count_minutes(state, AB, BEGIN, 8.0) == CountedMinutes(3, late=2, paused=0)
    assert count_minutes(state, AB, BEGIN + 60, 10.0) == CountedMinutes(2, late=1, paused=0)
    assert count_minutes(state, Flow("B", "A"), BEGIN, 8.0) == CountedMinutes(0, 0, 0)
    assert len(list((tmp_path / "figures" / "_delta_log").glob("*.json"))) <= 2  # made, one commit


def test_a_minute_in_which_only_what_is_paused_lags_is_not_late(
    tables: Tables, tmp_path: Path
) -> None:
    """A row of an earlier version knows no pause, and counts as it did."""
    (before,) = rows_of([Minute(AB, BEGIN, 60.0, None, {"lag_seconds": 90.0}, "running")])
    earlier = SCHEMAS[FIGURES].partition(", paused")[0]
    LocalTable(tmp_path / FIGURES).append([before], earlier)
    state = DeltaReader(tmp_path.as_uri())
    assert count_minutes(state, AB, BEGIN, 30.0) == CountedMinutes(1, late=1, paused=0)
    assert stored_figures(state, AB, None, BEGIN)[0][1]["paused"] is None

    rows: list[dict[str, float | None]] = [
        {"paused": 0, "lag_seconds": 90.0, "unpaused_lag_seconds": 90.0},
        {"paused": 1, "lag_seconds": 90.0, "unpaused_lag_seconds": 2.0},
        {"paused": 1, "lag_seconds": 90.0, "unpaused_lag_seconds": 40.0},
        {"paused": 2, "lag_seconds": 90.0, "unpaused_lag_seconds": None},  # all of it
    ]
    minutes = [
        Minute(AB, BEGIN + 60 * n, 60.0, None, row, "running") for n, row in enumerate(rows, 1)
    ]
    tables.append(FIGURES, rows_of(minutes))
    assert count_minutes(state, AB, BEGIN, 30.0) == CountedMinutes(5, late=3, paused=3)


def test_a_standby_writes_nothing(tables: Tables, tmp_path: Path) -> None:
    writer = FiguresWriter(tables)
    write(writer, 3, None)
    writer.close()
    assert not (tmp_path / "figures" / "_delta_log").exists()


def test_rows_wait_for_a_table_that_cannot_be_written(
    tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer, away = FiguresWriter(tables, each_seconds=0.0), tmp_path.with_name("away")
    tables.begin_folder()
    tmp_path.rename(away)
    with caplog.at_level(logging.WARNING):
        write(writer, 2, Owner("etl-7", 1, BEGIN))
        wait_until(lambda: "figures_not_written" in caplog.text, 30)
    away.rename(tmp_path)
    writer.close()

    found = stored_figures(DeltaReader(tmp_path.as_uri()), AB, None, BEGIN)
    assert [at for at, _ in found] == [BEGIN, BEGIN + 60]
    assert caplog.text.count("figures_not_written") == 1
