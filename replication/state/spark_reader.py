"""Reads a state directory in a process that has a Spark session: through Spark only if it must."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from replication.state.delta_reader import DeltaReader
from replication.state.storage import Storage
from replication.state.table_reader import StateReader
from replication.state.tables import Tables, local_tables


class SparkReader(StateReader):
    """Reads tables through Spark, for storage that only Spark can reach."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def path(self, table: str) -> str:
        """Returns the URI of *table*."""
        return self._tables.path(table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*; none if the table does not exist."""
        return self._tables.query(table, sql)


def reader_of(tables: Tables) -> StateReader:
    """Returns a reader of *tables* for a job: delta-rs where it reaches them, else Spark.

    A query of Spark's over a small table takes a task slot and hundreds of milliseconds.

    Raises:
        StateError: The state directory has disappeared.
    """
    tables.check_folder()  # of a folder that is gone, no row would be an answer
    is_without = tables.storage.engine == "delta-rs"
    if not is_without:
        return SparkReader(tables)
    return DeltaReader(tables.root, tables.storage, tables.known)


@contextmanager
def open_spark_reader(storage: Storage) -> Iterator[SparkReader]:
    """Yields a reader of *storage* with a Spark session of its own, which ends with the block."""
    with local_tables(storage) as tables:
        yield SparkReader(tables)
