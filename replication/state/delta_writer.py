"""Appends to the Delta tables without Spark, whose commits cost many times the CPU.

Only appends, and only where `replication.state.delta_reader.can_reach` says so. Everything that
rewrites or removes rows is Spark's.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from arro3.core import Array, DataType, Field, Schema, Table
from deltalake import write_deltalake

from replication.state.schemas import PROPERTIES

_TYPES: Final = {
    "string": DataType.utf8(),
    "bigint": DataType.int64(),
    "int": DataType.int32(),
    "boolean": DataType.bool(),
    "timestamp": DataType.timestamp("us", tz="UTC"),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)


def append_rows(folder: Path, rows: Sequence[Mapping[str, Any]], schema: str) -> None:
    """Appends *rows* to the table in *folder* in one commit, and creates the table for the first.

    Args:
        folder: Of the table.
        rows: Columns by name; an absent one is null. Times are aware datetimes.
        schema: The columns as in SQL: ``topic string, partition int``.

    Raises:
        DeltaError: It cannot be written; another process may have written the same version.
        OSError: The folder cannot be written.
    """
    columns = [column.split() for column in schema.split(", ")]
    arrays = [_array([row.get(name) for row in rows], kind) for name, kind in columns]
    fields = [Field(name, _TYPES[kind], nullable=True) for name, kind in columns]
    write_deltalake(
        folder,
        Table.from_arrays(arrays, schema=Schema(fields)),
        partition_by=["flow"],
        mode="append",
        schema_mode="merge",  # a table of an earlier version
        configuration=PROPERTIES,
    )


def _array(values: Sequence[Any], kind: str) -> Array:
    if kind != "timestamp":
        return Array(values, type=_TYPES[kind])
    micros = [None if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
    return Array(micros, type=DataType.int64()).cast(_TYPES[kind])
