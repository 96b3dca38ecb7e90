"""Whatever lies in a table's folder, the error says what to do. The tables are real ones."""

import errno
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from replication.errors import StateError
from replication.model import Flow
from replication.state.delta import DeltaReader, LocalTable, RemoteTable, has_table
from replication.state.offset_table import compacted
from replication.state.schemas import (
    FORGOTTEN,
    SCHEMAS,
    DamagedTableError,
    KnownTables,
    LostTableError,
    cause_of,
    odd_rows,
    state_error,
    table_errors,
)
from tests.support.damage import DAMAGES, LOSSES

FLOW = Flow("A", "B")
RUNS = "offset_runs"


def row(number: int) -> dict[str, Any]:
    offsets = {"src_from": number, "src_until": number + 1, "tgt_from": number, "count": 1}
    batches = {"generation": 1, "first_batch": 1, "last_batch": 1}
    topic = {"flow": str(FLOW), "topic": "orders", "partition": 0, "topic_id": "id"}
    return {**topic, **offsets, **batches, "written_at": datetime.now(timezone.utc)}


def append(folder: Path, *rows: dict[str, Any], schema: str = SCHEMAS[RUNS]) -> None:
    for one in rows:
        with table_errors("append to", RUNS, str(folder)):
            LocalTable(folder).append([one], schema)


def compact(folder: Path) -> int:
    parts = partial(compacted, flow=FLOW)
    return LocalTable(folder).rewrite(f"flow = '{FLOW}'", SCHEMAS[RUNS], parts)


def read_and_append(folder: Path) -> None:
    """Some damaged tables can still be read, some be appended to."""
    DeltaReader(folder.parent.as_uri()).offsets(FLOW).progress()
    append(folder, row(3))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The folder of an offset map with three rows."""
    folder = tmp_path / RUNS
    append(folder, *map(row, range(3)))
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named_with_the_step_that_helps(table: Path, damage: str) -> None:
    DAMAGES[damage](table)

    with pytest.raises(DamagedTableError) as raised:
        read_and_append(table)

    text = str(raised.value)
    assert f"table {RUNS} at {table}: " in text
    assert "move this folder away, and start it again: the next start finds the positions" in text
    assert text.isprintable(), "one line, without colours"


def test_what_a_first_commit_leaves_that_was_killed_is_no_table(tmp_path: Path) -> None:
    log = tmp_path / RUNS / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json#1").touch()

    assert DeltaReader(tmp_path.as_uri()).rows(RUNS, FLOW) == []
    append(tmp_path / RUNS, row(0))
    assert len(DeltaReader(tmp_path.as_uri()).rows(RUNS, FLOW)) == 1


def test_columns_of_others_do_no_harm(table: Path) -> None:
    DeltaTable(table).alter.add_columns([Field("note", PrimitiveType("string"))])

    append(table, row(3))
    left = compact(table)

    (found,) = DeltaReader(table.parent.as_uri()).rows(RUNS, FLOW)
    assert left == 1
    assert (found["count"], found["note"]) == (4, None)


OTHER_SCHEMAS = [
    ("generation bigint", "generation string", "column generation is string instead of bigint"),
    (", count bigint", "", "it has no column count"),
]


@pytest.mark.parametrize(("column", "changed", "expected"), OTHER_SCHEMAS)
def test_a_table_of_another_schema_is_refused(
    tmp_path: Path, column: str, changed: str, expected: str
) -> None:
    one = row(0) | ({"generation": "first"} if "string" in changed else {})
    append(tmp_path / RUNS, one, schema=SCHEMAS[RUNS].replace(column, changed))

    with pytest.raises(DamagedTableError, match=expected):
        DeltaReader(tmp_path.as_uri()).offsets(FLOW).progress()


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(SCHEMAS[RUNS].replace(", last_batch bigint", ""), id="of an earlier version"),
        pytest.param(SCHEMAS[RUNS].replace("count bigint", "count int"), id="smaller numbers"),
    ],
)
def test_a_table_that_holds_the_same_is_read(tmp_path: Path, schema: str) -> None:
    append(tmp_path / RUNS, row(0), schema=schema)

    assert DeltaReader(tmp_path.as_uri()).offsets(FLOW).progress().last_generation == 1


def test_rows_that_the_mirror_does_not_write_are_an_error(table: Path) -> None:
    append(table, row(3) | {"src_until": None, "generation": None})

    with pytest.raises(DamagedTableError, match="rows that the mirror does not write"):
        DeltaReader(table.parent.as_uri()).offsets(FLOW).progress()
    with pytest.raises(DamagedTableError), odd_rows(RUNS, str(table)):
        compact(table)


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (errno.ENOSPC, "free some space there"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EROFS, "mount the file system so that it can be written"),
        (errno.EACCES, "give the job's user the right"),
        (errno.EIO, "check that state.dir exists"),
    ],
)
@pytest.mark.parametrize(
    "reason",
    [
        "Generic LocalFileSystem error: Unable to open file: {words} (os error {code})",
        '[Errno {code}] {words}: "/state/offset_runs"',
        "java.io.IOException: {words}",
    ],
)
def test_a_disk_in_trouble_is_no_damage(tmp_path: Path, code: int, step: str, reason: str) -> None:
    text = reason.format(code=code, words=os.strerror(code))

    for is_damaged in (True, False):
        error = state_error("read", RUNS, f"{tmp_path}/{RUNS}", text, is_damaged=is_damaged)
        assert type(error) is StateError
        assert f"{text}; {step}" in str(error)


def test_a_state_directory_that_is_no_folder_is_no_damage_of_its_tables(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")

    with pytest.raises(StateError, match=r"Not a directory.*; check that state.dir") as raised:
        DeltaReader((tmp_path / "state").as_uri()).rows(RUNS, FLOW)

    assert not isinstance(raised.value, DamagedTableError)


def test_a_table_that_others_commit_to_at_the_same_time_is_not_damaged(table: Path) -> None:
    mine = DeltaTable(table)
    DeltaTable(table).delete()

    with (
        pytest.raises(StateError, match="let no other program write to it") as raised,
        table_errors("delete rows of", RUNS, str(table)),
    ):
        mine.delete("src_from = 1")

    assert not isinstance(raised.value, DamagedTableError)


class PanicException(BaseException):
    """As delta-rs raises; its class cannot be imported."""


PanicException.__module__ = "pyo3_runtime"


@pytest.mark.parametrize("error", [PanicException("a panic"), Exception("of a query"), OSError()])
def test_every_error_of_the_library_is_translated(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(StateError), table_errors("read", RUNS, f"{tmp_path}/{RUNS}"):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TypeError("a defect"), StateError("own")])
def test_no_other_error_is(tmp_path: Path, error: BaseException) -> None:
    with (
        pytest.raises(type(error)) as raised,
        table_errors("read", RUNS, f"{tmp_path}/{RUNS}"),
    ):
        raise error

    assert raised.value is error


def test_a_cause_is_one_line_with_the_words_of_the_operating_system() -> None:
    arrow = "\n  \x1b[31m↳\x1b[0m"
    text = f"Kernel error{arrow} cannot open x{arrow} No space\n  0: <unknown>\n"

    assert cause_of(OSError(text)) == "Kernel error: cannot open x: No space"
    assert cause_of(Exception()) == "Exception"
    assert cause_of(Exception("plan " * 1000 + "No space")).endswith("No space")


def test_of_every_table_it_is_known_what_is_forgotten_without_it() -> None:
    assert FORGOTTEN.keys() == SCHEMAS.keys()


def test_a_link_to_an_empty_folder_is_no_table_yet(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "table").symlink_to(tmp_path / "elsewhere")

    assert not has_table(tmp_path / "table")


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "open_table",
    [LocalTable, lambda folder, known: RemoteTable(str(folder), known=known)],
    ids=["local", "remote"],
)
def test_a_table_that_a_process_has_met_is_not_made_anew(
    tmp_path: Path, name: str, loss: str, open_table: Callable[[Path, KnownTables], RemoteTable]
) -> None:
    folder, known, one = tmp_path / name, KnownTables(), {"flow": str(FLOW)}
    for _ in range(2):
        open_table(folder, known).append([one], SCHEMAS[name])
    reader = DeltaReader(tmp_path.as_uri(), known=known)
    away = Path(shutil.copytree(folder, tmp_path / "away"))
    LOSSES[loss](folder)
    left = sorted(folder.rglob("*"))

    for _ in range(2):
        with pytest.raises(LostTableError, match=f"table {name} at .*stop the mirror and start"):
            open_table(folder, known).append([one], SCHEMAS[name])
        with pytest.raises(LostTableError, match="put it back as it was"):
            reader.rows(name, FLOW)
    assert sorted(folder.rglob("*")) == left, "nothing was written there"

    shutil.rmtree(folder, ignore_errors=True)
    away.rename(folder)
    open_table(folder, known).append([one], SCHEMAS[name])
    assert len(reader.rows(name, FLOW)) == 3


def test_another_process_may_begin_a_table_and_append_to_it(tmp_path: Path) -> None:
    known, one = KnownTables(), {"flow": str(FLOW)}
    reader = DeltaReader(tmp_path.as_uri(), known=known)
    assert reader.rows("events", FLOW) == []

    for count in range(1, 4):
        LocalTable(tmp_path / "events").append([one], SCHEMAS["events"])
        LocalTable(tmp_path / "events", known).append([one], SCHEMAS["events"])
        LocalTable(tmp_path / "events", known).merge_files()
        assert len(reader.rows("events", FLOW)) == 2 * count
