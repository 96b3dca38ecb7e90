"""Delta tables by delta-rs, and a reader of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from arro3.core import Array, DataType, Field, RecordBatch, Schema, Table
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake import Field as StoredField
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from replication.config.state_access import StateAccess
from replication.figures.lag import EPOCH, utc
from replication.state.schemas import (
    WHOLE,
    KnownTables,
    Met,
    asked_again,
    check_columns,
    outdated_properties,
    short_properties,
    table_errors,
)
from replication.state.storage import Storage, storage_for
from replication.state.stored_table import Before, Query, Replacement, Rows
from replication.state.table_reader import StateReader

_TYPES: Final = {
    "string": DataType.utf8(),
    "bigint": DataType.int64(),
    "int": DataType.int32(),
    "double": DataType.float64(),
    "boolean": DataType.bool(),
    "binary": DataType.binary(),
    "timestamp": DataType.timestamp("us", tz="UTC"),
}
MERGED_BYTES: Final = 32 * 1024
"""Small files are merged to files of about this size. Until the file of earlier merges is as large,
a merge writes its rows again: of a larger one, many times."""

SMALL_BYTES: Final = MERGED_BYTES // 2
"""A file of fewer bytes is merged with others as soon as there are many: any two make one."""

_MICROSECOND: Final = timedelta(microseconds=1)

_PATIENCE: Final = {
    "timeout": "10s",
    "connect_timeout": "5s",
    "retry_timeout": "10s",
    "max_retries": "3",
}
"""Of S3. delta-rs holds Python's lock while it reads a file or sets properties, so no thread of the
process would turn while the storage is silent."""


class RemoteTable:
    """A `StoredTable` at a *uri*, without Spark; its errors are those of `table_errors`.

    It is used where `replication.state.storage` says so, `spark_writer.SparkTable` elsewhere.
    Its log lets one of several commits with the same number win, and delta-rs repeats the others.
    A table that is not the one in *known* any more is a `LostTableError`.
    """

    attempts = 5  # of an append: another process may add columns or set properties meanwhile
    may_convert = False
    """Whether a table of an earlier version is made anew: rows that others append meanwhile, which
    have their flow in the name of a folder, would lose it."""

    kept_hours: int | None = 24
    """How long a file stays that no commit names: its writer may be paused, and no lock says so."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str] | None = None,
        known: KnownTables | None = None,
    ) -> None:
        self._uri = uri
        self._known = known or KnownTables()
        self._options = {**(_PATIENCE if uri.startswith("s3:") else {}), **(options or {})}
        self._name = uri.rpartition("/")[2]
        self._properties = short_properties(self._name)
        self._partitions = [] if self._name in WHOLE else ["flow"]

    def exists(self) -> bool:
        before = self._known.newest(self._name)
        try:  # is_deltatable would hold Python's lock while it waits for the storage
            self._open()
        except TableNotFoundError:
            self._known.check(self._name, self._uri, before, None)
            return False
        except DeltaError:  # it is there, and damaged: whoever reads it says how
            return True
        return True

    def query(self, sql: str) -> list[dict[str, Any]]:
        table = self._open()
        columns = dict(map(_name_and_kind, table.schema().fields))
        check_columns(self._name, self._uri, columns)
        return _query(table, sql)

    def append(self, rows: Rows, schema: str) -> int:
        batch = _batch(rows, schema)
        if not self.exists():
            self._create(batch)
            if not rows:
                return _mergeable(self._open())
        attempt = 0
        while True:
            table = self._open()
            attempt += 1
            try:
                # the schema may be that of an earlier version
                write_deltalake(
                    table, Table.from_batches([batch]), mode="append", schema_mode="merge"
                )
                break
            except CommitFailedError:
                if attempt == self.attempts:
                    raise
        self._known.check(self._name, self._uri, None, _met(table))
        return _mergeable(table)

    def _create(self, batch: RecordBatch) -> None:
        """Creates the table in a commit of its own, which fails if another process has created it.

        A write that creates it would come behind that of the other process, with another id.
        """
        try:
            DeltaTable.create(
                self._uri,
                batch.schema,
                partition_by=self._partitions or None,
                configuration=self._properties,
                storage_options=self._options,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, CommitFailedError):
            if not self.exists():
                raise

    def rewrite(
        self, condition: str, schema: str, parts: Callable[[Query], Iterable[Replacement]]
    ) -> int:
        table = self._open()  # one version of it is read and replaced, in one commit
        # what is written waits as Arrow, some 100 bytes a row
        batches = [_batch(part.rows, schema) for part in parts(partial(_query, table)) if part.rows]
        if not batches:
            table.delete(condition)
            return 0
        written = Table.from_batches(batches)
        # of columns that others have added, the new rows have none
        write_deltalake(table, written, mode="overwrite", predicate=condition, schema_mode="merge")
        return int(written.num_rows)

    def files(self) -> int:
        return len(self._open().file_uris())

    def delete(self, condition: str, before: Before | None) -> None:
        if before is not None:
            # the type must be the column's: a literal of SQL has no time zone, and nanoseconds
            kind = 'Timestamp(Microsecond, Some("UTC"))'
            condition += f" AND {before.column} < arrow_cast('{before.time.isoformat()}', '{kind}')"
        self._open().delete(condition)

    def properties(self) -> dict[str, str]:
        return dict(self._open().metadata().configuration)

    def created_at(self) -> datetime:
        return utc(self._open().metadata().created_time / 1000)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._open().alter.set_table_properties(dict(properties), raise_if_not_exists=False)

    def outdated_properties(self) -> dict[str, str]:
        return outdated_properties(self._properties, self.properties())

    def merge_files(self, *, only_small: bool = False) -> None:
        table = self._open()
        if self.may_convert and not self._partitions and table.metadata().partition_columns:
            # of an earlier version, which wrote a file for each lease
            rows = QueryBuilder().register("runs", table).execute("SELECT * FROM runs")
            write_deltalake(table, rows, mode="overwrite", partition_by=[], schema_mode="overwrite")
        table.optimize.compact(target_size=MERGED_BYTES if only_small else None)
        if only_small:  # in a folder all: a checkpoint forgets files whose time is over
            table.vacuum(dry_run=False, full=self.kept_hours is None)
        table.create_checkpoint()
        table.cleanup_metadata()

    def vacuum(self) -> None:
        # commits its start and its end
        self._open().vacuum(
            self.kept_hours, dry_run=False, full=True, enforce_retention_duration=False
        )

    def _open(self) -> DeltaTable:
        before = self._known.newest(self._name)
        table = DeltaTable(self._uri, storage_options=self._options)
        self._known.check(self._name, self._uri, before, _met(table))
        return table


class LocalTable(RemoteTable):
    """A table in *folder*; whoever commits to it holds its commit lock."""

    attempts = 1
    may_convert = True
    kept_hours = None  # the lock keeps others out, so the table's own bound is enough

    def __init__(self, folder: Path, known: KnownTables | None = None) -> None:
        super().__init__(str(folder), known=known)
        self._folder = folder

    def exists(self) -> bool:
        before = self._known.newest(self._name)
        if has_table(self._folder):
            return True
        self._known.check(self._name, self._uri, before, None)
        return False


def _met(table: DeltaTable) -> Met:
    return Met(str(table.metadata().id), table.version())


def _mergeable(table: DeltaTable) -> int:
    """Returns how many small files the partition of *table* has that has most of them.

    Files of two partitions cannot be merged, and whoever reads a flow opens those of its own.
    """
    actions = table.get_add_actions()
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    pairs = zip(paths, sizes, strict=True)
    small = Counter(path.rpartition("/")[0] for path, size in pairs if size < SMALL_BYTES)
    return max(small.values(), default=0)


def has_table(folder: Path) -> bool:
    """Returns whether a table was ever written to *folder*, however it looks now.

    Raises:
        OSError: That cannot be seen.
    """
    try:
        names = [file.name for file in (folder / "_delta_log").iterdir()]
    except FileNotFoundError:
        if folder.is_symlink() and not folder.exists():  # to a disk that is not there
            raise
        return False
    # a process that was killed in its first commit leaves an empty folder, or an unfinished file
    return any(name.endswith((".json", ".parquet", "_last_checkpoint")) for name in names)


def _query(table: DeltaTable, sql: str) -> list[dict[str, Any]]:
    query = QueryBuilder().register("stored", table)
    found = query.execute(sql.replace("{table}", "stored")).read_all()
    names = found.column_names
    columns = [found.column(name).to_pylist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _name_and_kind(field: StoredField) -> tuple[str, str]:
    return field.name, getattr(field.type, "type", "a structure")


def _batch(rows: Rows, schema: str) -> RecordBatch:
    columns = [column.split() for column in schema.split(", ")]
    arrays = [_array([row.get(name) for row in rows], kind) for name, kind in columns]
    fields = [Field(name, _TYPES[kind], nullable=True) for name, kind in columns]
    return RecordBatch.from_arrays(arrays, schema=Schema(fields))


def _array(values: Sequence[Any], kind: str) -> Array:
    if kind != "timestamp":
        return Array(values, type=_TYPES[kind])
    micros = [None if value is None else (value - EPOCH) // _MICROSECOND for value in values]
    return Array(micros, type=DataType.int64()).cast(_TYPES[kind])


class DeltaReader(StateReader):
    """The tables of a state directory that delta-rs reaches; *known* are those of a process."""

    def __init__(
        self, state_dir: str, storage: Storage | None = None, known: KnownTables | None = None
    ) -> None:
        self._storage = storage or storage_for(StateAccess(state_dir))
        self._known = known

    def path(self, table: str) -> str:
        return self._storage.uri(table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*; none if the table does not exist."""
        return asked_again(partial(self._query, table, sql))

    def _query(self, table: str, sql: str) -> list[dict[str, Any]]:
        with table_errors("read", table, self.path(table)):
            stored = delta_table(self._storage, table, self._known)
            return stored.query(sql) if stored.exists() else []


def delta_table(storage: Storage, table: str, known: KnownTables | None = None) -> RemoteTable:
    """Returns *table* of *storage*, which delta-rs reaches; *known* are those of the process."""
    uri = storage.uri(table)
    if storage.is_local:
        return LocalTable(Path(uri), known)
    return RemoteTable(uri, storage.options, known)
