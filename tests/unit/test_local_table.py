"""A table of a local folder stays small by what it holds, whoever wrote it."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from replication.model import Flow
from replication.state.delta import MERGED_BYTES, SMALL_BYTES, DeltaReader, LocalTable, RemoteTable
from replication.state.schemas import PROPERTIES, SCHEMAS, outdated_properties, short_properties

MOST_FILES = 40
AT_ONCE = {
    f"delta.{name}Duration": "interval 0 seconds"
    for name in ("logRetention", "deletedFileRetention")
}


def append(folder: Path, epoch: int, flows: int = 1) -> int:
    """What a process of its own appends; returns how many files could be merged."""
    row = {"owner": os.urandom(18).hex(), "renewed": datetime.now(timezone.utc), "epoch": epoch}
    rows = [{**row, "flow": f"A->B{number}"} for number in range(flows)]
    return LocalTable(folder).append(rows, SCHEMAS[folder.name])


def count(folder: Path) -> int:
    found = QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT count(*) AS n FROM t")
    return int(found.read_all().column("n").to_pylist()[0])


@pytest.mark.parametrize("table", ["leases", "executions", "offset_runs"])
def test_bytes_and_files_stay_bounded_over_many_processes(tmp_path: Path, table: str) -> None:
    folder, most = tmp_path / table, 0
    for epoch in range(3 * MOST_FILES):
        files = append(folder, epoch)
        if epoch == 0:
            LocalTable(folder).set_properties(AT_ONCE)
        if files >= MOST_FILES:
            LocalTable(folder).merge_files(only_small=True)
        most = max(most, sum(path.is_file() for path in folder.rglob("*")))

    assert count(folder) == 3 * MOST_FILES
    assert LocalTable(folder).files() <= MOST_FILES
    # data files that left the table go with the next merge; so does the log before it
    assert most < 5 * MOST_FILES


def test_a_table_that_three_processes_create_at_once_is_one_table(tmp_path: Path) -> None:
    """Each knows the table by its id, which a second creation would change."""

    def write(folder: Path, number: int, start: threading.Barrier) -> None:
        table = RemoteTable(str(folder))  # no lock keeps the others out
        start.wait()
        for epoch in range(2):
            table.append([{"flow": f"A->B{number}", "epoch": epoch}], SCHEMAS["leases"])

    for race in range(10):
        start, folder = threading.Barrier(3), tmp_path / str(race) / "leases"
        with ThreadPoolExecutor(3) as pool:
            for one in [pool.submit(write, folder, number, start) for number in range(3)]:
                one.result()
        assert count(folder) == 6


class BesideMerge(LocalTable):
    """Opens the table a moment before a merge that keeps no file of before."""

    is_first = True

    def _open(self) -> DeltaTable:
        opened = super()._open()
        if self.is_first:
            self.is_first = False
            LocalTable(self._folder).merge_files(only_small=True)
        return opened


def test_a_table_that_is_merged_while_it_is_read_is_asked_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "offset_runs"
    append(folder, 0)
    LocalTable(folder).set_properties(AT_ONCE)
    beside = BesideMerge(folder)
    for epoch in range(3):
        append(folder, epoch)
    monkeypatch.setattr("replication.state.delta.delta_table", lambda *_: beside)

    found = DeltaReader(tmp_path.as_uri()).query("offset_runs", "SELECT generation FROM {table}")

    assert len(found) == 4


def test_files_that_have_left_the_table_go_although_a_checkpoint_has_forgotten_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "leases"
    append(folder, 0)
    second = dict.fromkeys(AT_ONCE, "interval 1 seconds")
    LocalTable(folder).set_properties(second)
    for epoch in range(3):
        append(folder, epoch)
    LocalTable(folder).merge_files(only_small=True)
    time.sleep(1.1)  # the time for which the files of before the merge are kept
    append(folder, 4)
    DeltaTable(folder).create_checkpoint()  # as delta-rs does every hundred commits

    append(folder, 5)
    LocalTable(folder).merge_files(only_small=True)

    known = {Path(uri).name for uri in DeltaTable(folder).file_uris()}
    left = {path.name for path in folder.glob("*.parquet")} - known
    assert len(left) == 3, "the files of this merge are kept for a second"


def test_a_file_that_is_large_enough_is_not_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    append(folder, 1, flows=30_000)
    (large,) = (path for path in folder.glob("*.parquet") if path.stat().st_size > MERGED_BYTES)
    for epoch in range(3):
        append(folder, epoch)

    LocalTable(folder).merge_files(only_small=True)

    assert large.name in {Path(uri).name for uri in DeltaTable(folder).file_uris()}
    assert LocalTable(folder).files() == 2


def test_files_of_which_no_two_make_one_are_no_reason_to_merge(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    for epoch in range(3):
        assert append(folder, epoch, flows=3_000) == 0

    sizes = DeltaTable(folder).get_add_actions().column("size_bytes").to_pylist()
    assert SMALL_BYTES < min(sizes) < 2 * SMALL_BYTES, "the rows of this test are as many as meant"


def test_a_file_for_each_of_many_flows_is_no_reason_to_merge(tmp_path: Path) -> None:
    folder = tmp_path / "offset_runs"

    assert append(folder, 1, flows=2 * MOST_FILES) == 1
    assert append(folder, 2, flows=3) == 2


def test_leases_of_an_earlier_version_become_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    append(tmp_path / "old" / "leases", 0, flows=12)
    rows = QueryBuilder().register("t", DeltaTable(tmp_path / "old" / "leases"))
    write_deltalake(folder, rows.execute("SELECT * FROM t").read_all(), partition_by=["flow"])
    assert append(folder, 1, flows=12) == 2, "of each flow"

    LocalTable(folder).merge_files(only_small=True)

    assert LocalTable(folder).files() == 1
    assert count(folder) == 24
    assert append(folder, 2, flows=12) == 2


def test_a_table_gets_new_defaults_and_keeps_an_operators_values() -> None:
    wanted = short_properties("leases")

    assert outdated_properties(wanted, {}) == wanted
    assert outdated_properties(wanted, PROPERTIES) == wanted
    assert outdated_properties(wanted, wanted) == {}
    own = {**PROPERTIES, "delta.logRetentionDuration": "interval 9 days"}
    assert "delta.logRetentionDuration" not in outdated_properties(wanted, own)
    assert short_properties("events") == PROPERTIES


def test_events_of_an_earlier_version_stay_beside_the_new_ones(tmp_path: Path) -> None:
    folder, schema = tmp_path / "events", SCHEMAS["events"]
    row = {"flow": "A->B", "at": datetime.now(timezone.utc), "kind": "restarted"}
    earlier = schema.replace("reaction", "policy")

    LocalTable(folder).append([{**row, "text": "old", "policy": "retry"}], earlier)
    before = DeltaReader(tmp_path.as_uri()).rows("events", Flow("A", "B"))
    LocalTable(folder).append([{**row, "text": "new", "reaction": "retry"}], schema)
    after = DeltaReader(tmp_path.as_uri()).rows("events", Flow("A", "B"))

    assert [event["text"] for event in before] == ["old"]
    assert {event["text"]: (event["policy"], event["reaction"]) for event in after} == {
        "old": ("retry", None),
        "new": (None, "retry"),
    }
