"""What other programs, a power cut or a full disk leave of a Delta table."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from deltalake import DeltaTable

Damage = Callable[[Path], None]


def data_gone(table: Path) -> None:
    """As by VACUUM without retention, or after a restore of a part."""
    for file in _data(table):
        file.unlink()


def data_cut(table: Path) -> None:
    for file in _data(table):
        file.write_bytes(file.read_bytes()[:100])


def data_is_folder(table: Path) -> None:
    for file in list(_data(table)):
        file.unlink()
        file.mkdir()


def commit_cut(table: Path) -> None:
    newest = _commits(table)[-1]
    newest.write_bytes(newest.read_bytes()[:200])


def commit_of_zeros(table: Path) -> None:
    _commits(table)[-1].write_bytes(bytes(300))


def first_commit_gone(table: Path) -> None:
    _commits(table)[0].unlink()


def commit_missing(table: Path) -> None:
    _commits(table)[1].unlink()


def next_commit_is_folder(table: Path) -> None:
    (table / "_delta_log" / f"{len(_commits(table)):020d}.json").mkdir()


def checkpoint_missing(table: Path) -> None:
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version":77,"size":3}')


def checkpoint_cut(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    for file in (table / "_delta_log").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])


def log_is_file(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").write_text("not a folder")


def table_is_file(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("not a folder")


def table_is_lost_link(table: Path) -> None:
    shutil.rmtree(table)
    table.symlink_to(table.with_name("a disk that is not mounted"))


def unknown_features(table: Path) -> None:
    first = _commits(table)[0]
    entries = [json.loads(line) for line in first.read_text().splitlines()]
    for entry in entries:
        if "protocol" in entry:
            entry["protocol"] = {"minReaderVersion": 99, "minWriterVersion": 99}
    first.write_text("\n".join(map(json.dumps, entries)))


DAMAGES: Mapping[str, Damage] = MappingProxyType(
    {
        damage.__name__: damage
        for damage in (
            *(data_gone, data_cut, data_is_folder),
            *(commit_cut, commit_of_zeros, first_commit_gone, commit_missing),
            *(next_commit_is_folder, checkpoint_missing, checkpoint_cut),
            *(log_is_file, table_is_file, table_is_lost_link, unknown_features),
        )
    }
)
"""By name; each takes the folder of a table with three commits."""


def folder_gone(table: Path) -> None:
    shutil.rmtree(table)


def log_gone(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")


def other_table(table: Path) -> None:
    """As where another process has begun one in its place."""
    schema = DeltaTable(table).schema()
    shutil.rmtree(table)
    DeltaTable.create(str(table), schema)


def last_commit_gone(table: Path) -> None:
    """As by an older copy that was put there."""
    _commits(table)[-1].unlink()


LOSSES: Mapping[str, Damage] = MappingProxyType(
    {loss.__name__: loss for loss in (folder_gone, log_gone, other_table, last_commit_gone)}
)
"""By name; each leaves no table or another one, in which nothing looks wrong by itself."""


def _data(table: Path) -> Iterator[Path]:
    return (file for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)


def _commits(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))
