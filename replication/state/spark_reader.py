"""Reads a state directory in a process that has a Spark session: through Spark only if it must."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replication.model import Flow
from replication.state.delta_reader import DeltaReader, can_reach
from replication.state.offset_rows import OffsetReader
from replication.state.offset_table import OffsetTable
from replication.state.readers import StateReader
from replication.state.tables import Tables, local_tables


class SparkReader:
    """A `StateReader` that uses Spark, for storage that only Spark can reach."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def rows(self, table: str, flow: Flow) -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table*, in no order; times are aware datetimes."""
        return self._collect(self._tables.of(table, flow), table)

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of columns, for each value of *keys*."""
        newest = F.max_by(F.struct("*"), F.struct(*order)).alias("newest")
        flows = list(map(str, flow if isinstance(flow, list) else [flow]))
        rows = self._tables.read(table).where(F.col("flow").isin(flows))
        frame = rows.groupBy(*keys).agg(newest).select("newest.*")
        return self._collect(frame, table)

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""
        return OffsetTable(self._tables, flow)

    def _collect(self, frame: DataFrame, table: str) -> list[dict[str, Any]]:
        found = self._tables.collect(frame, table)
        return [{name: _with_zone(value) for name, value in row.asDict().items()} for row in found]


def reader_of(tables: Tables) -> StateReader:
    """Returns a reader of *tables* for a job: delta-rs where it reaches them, else Spark.

    A query of Spark's over a small table takes a task slot and hundreds of milliseconds.

    Raises:
        StateError: The state directory has disappeared.
    """
    tables.check_folder()  # of a folder that is gone, no row would be an answer
    return DeltaReader(tables.root) if can_reach(tables.root) else SparkReader(tables)


@contextmanager
def open_spark_reader(state_dir: str, hadoop: Mapping[str, str]) -> Iterator[SparkReader]:
    """Yields a reader of *state_dir* with a Spark session of its own, which ends with the block."""
    with local_tables(state_dir, hadoop) as tables:
        yield SparkReader(tables)


def _with_zone(value: object) -> object:
    """Returns *value*; a time of Spark's, naive and local, becomes an aware one in UTC."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
