"""Damaged tables without positions: the flow goes on with new ones, and an event says so."""

import shutil
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import StateError
from replication.model import Flow
from replication.state.claim import Claim, LeaseName
from replication.state.lease import hold_lease
from replication.state.schemas import DamagedTableError, LostTableError
from replication.state.tables import Tables, now, reader_of
from tests.support.damage import (
    DAMAGES,
    LOSSES,
    Damage,
    commit_cut,
    commit_missing,
    data_cut,
    data_gone,
)
from tests.support.frames import frame

pytestmark = pytest.mark.spark

FLOW = Flow("A", "B")
LINK = "table_is_lost_link"  # nothing of the table is there to be moved aside


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return tables_of(spark, tmp_path)


def kinds(tables: Tables) -> list[str]:
    return sorted(row.kind for row in frame(tables, "events").collect())


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {LINK}))
def test_a_flow_takes_its_lease_although_the_table_is_damaged(
    tables: Tables, tmp_path: Path, damage: str
) -> None:
    DAMAGES[damage](tmp_path / "leases")

    epochs = []
    for _ in range(2):
        with hold_lease(tables, Claim(LeaseName(FLOW), tables.root, None)) as lease:
            assert lease is not None
            epochs.append(lease.epoch)

    assert epochs == [epochs[0], epochs[0] + 1]
    assert kinds(tables) == ["adopted"] * 3 + ["table-damaged"]
    (aside,) = tmp_path.glob("leases.damaged-*")
    (text,) = [row.text for row in frame(tables, "events").collect() if row.kind == "table-damaged"]
    assert f"{aside} has the old one" in text


@pytest.mark.parametrize(
    "damage", sorted(DAMAGES.keys() - {LINK, "data_gone", "data_cut", "data_is_folder"})
)
def test_an_event_is_written_although_the_table_is_damaged(
    tables: Tables, tmp_path: Path, damage: str
) -> None:
    DAMAGES[damage](tmp_path / "events")

    tables.record_event(FLOW, "restarted", "first", reaction="retry")
    tables.record_event(FLOW, "restarted", "second", reaction="retry")

    assert kinds(tables) == ["restarted", "restarted", "table-damaged"]


def test_threads_move_a_damaged_table_once(tables: Tables, tmp_path: Path) -> None:
    commit_cut(tmp_path / "events")
    threads = [
        threading.Thread(
            target=tables.append, args=("events", [{"flow": f"A->{number}", "kind": "adopted"}])
        )
        for number in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert kinds(tables) == ["adopted"] * 8 + ["table-damaged"]
    assert len(list(tmp_path.glob("events.damaged-*"))) == 1


def test_a_table_with_positions_stays_where_it_is(tables: Tables, tmp_path: Path) -> None:
    for _ in range(2):
        tables.append("topics", [{"flow": str(FLOW), "topic": "t", "at": now()}])
    commit_cut(tmp_path / "topics")

    with pytest.raises(DamagedTableError, match="stop the mirror, move this folder away"):
        tables.append("topics", [{"flow": str(FLOW), "topic": "t", "at": now()}])

    assert list(tmp_path.glob("*.damaged-*")) == []


def test_a_table_that_cannot_be_written_is_not_moved(tables: Tables, tmp_path: Path) -> None:
    in_the_way = tmp_path / "_locks" / "leases.commit"
    in_the_way.unlink()
    in_the_way.mkdir()  # a folder cannot be locked

    with pytest.raises(StateError, match="cannot append to table leases"):
        tables.append("leases", [{"flow": str(FLOW), "epoch": 8}])

    assert list(tmp_path.glob("*.damaged-*")) == []


def tables_of(spark: SparkSession, state: Path) -> Tables:
    """With three commits of each table that is damaged here."""
    tables = Tables(spark, state.as_uri())
    for _ in range(3):
        tables.append("events", [{"flow": str(FLOW), "at": now(), "kind": "adopted"}])
        row = {"flow": str(FLOW), "epoch": 7, "owner": "x", "released": True, "renewed": now()}
        tables.append("leases", [row])
    return tables


HEALED = "checkpoint_missing"  # Delta in the JVM reads the commits then
NO_TABLE = {"log_is_file", "table_is_file"}  # as where another process begins one at this moment


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {LINK, HEALED} - NO_TABLE))
def test_tables_that_only_spark_reads_are_mended_as_well(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    state = tmp_path / "100%"  # which delta-rs cannot reach
    tables = tables_of(spark, state)
    DAMAGES[damage](state / "leases")

    with hold_lease(tables, Claim(LeaseName(FLOW), tables.root, None)) as lease:
        assert lease is not None

    assert kinds(tables) == ["adopted"] * 3 + ["table-damaged"]
    assert len(list(state.glob("leases.damaged-*"))) == 1
    assert tables.was_set_aside("leases")


@pytest.mark.parametrize("damage", [data_gone, data_cut, commit_cut, commit_missing])
def test_what_spark_misses_is_damage_too(
    spark: SparkSession, tmp_path: Path, damage: Damage
) -> None:
    state = tmp_path / "100%"  # which delta-rs cannot reach
    tables = Tables(spark, state.as_uri())
    for _ in range(3):
        tables.append("events", [{"flow": str(FLOW), "kind": "adopted"}])
    damage(state / "events")

    with pytest.raises(DamagedTableError, match="move this folder away"):
        reader_of(tables).rows("events", FLOW)


@pytest.mark.parametrize(
    ("loss", "folder"),
    [("folder_gone", "state"), *((loss, "100%") for loss in LOSSES)],  # which delta-rs cannot reach
)
def test_a_lost_table_is_made_anew_only_if_it_has_no_positions_and_is_said(
    spark: SparkSession, tmp_path: Path, loss: str, folder: str
) -> None:
    state = tmp_path / folder
    tables, row = tables_of(spark, state), {"flow": str(FLOW), "src_from": 0}
    tables.append("offset_runs", [row])
    tables.append("offset_runs", [row])
    away = Path(shutil.copytree(state / "offset_runs", tmp_path / "away"))
    for table in ("offset_runs", "leases"):
        LOSSES[loss](state / table)

    with hold_lease(tables, Claim(LeaseName(FLOW), tables.root, None)) as lease:
        assert lease is not None
    for attempt in (
        lambda: tables.append("offset_runs", [row]),
        lambda: tables.rewrite("offset_runs", "true", lambda _: [], "compact"),
        lambda: tables.delete("offset_runs", "true"),
        lambda: reader_of(tables).rows("offset_runs", FLOW),
    ):
        with pytest.raises(LostTableError, match=r"table offset_runs at .*put it back"):
            attempt()

    assert kinds(tables) == ["adopted"] * 3 + ["table-damaged"]
    (text,) = [row.text for row in frame(tables, "events").collect() if row.kind == "table-damaged"]
    assert "table leases at" in text
    assert "a new one begins: nobody knows who held a lease" in text
    shutil.rmtree(state / "offset_runs", ignore_errors=True)
    away.rename(state / "offset_runs")
    tables.append("offset_runs", [row])
    assert len(reader_of(tables).rows("offset_runs", FLOW)) == 3
