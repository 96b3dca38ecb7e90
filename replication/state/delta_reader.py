"""Reads the Delta tables without Spark: commands answer in milliseconds instead of seconds."""

from functools import partial
from pathlib import Path
from typing import Any

from replication.config.state_access import StateAccess
from replication.state.delta_writer import LocalTable, RemoteTable
from replication.state.open_storage import storage_for
from replication.state.storage import Storage
from replication.state.table_errors import KnownTables, asked_again, table_errors
from replication.state.table_reader import StateReader


class DeltaReader(StateReader):
    """The tables of a state directory that delta-rs reaches; *known* are those of a process."""

    def __init__(
        self, state_dir: str, storage: Storage | None = None, known: KnownTables | None = None
    ) -> None:
        self._storage = storage or storage_for(StateAccess(state_dir))
        self._known = known

    def path(self, table: str) -> str:
        """Returns the folder or URI of *table*."""
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
