"""Reads a state directory for a command: without Spark where that is possible, else with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Protocol

from replication.model import Flow
from replication.state.delta_reader import DeltaReader, can_reach
from replication.state.offset_rows import OffsetReader
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables, local_tables


class StateReader(Protocol):
    """What commands read of a state directory."""

    def rows(self, table: str, flow: Flow) -> list[dict[str, Any]]:
        """The rows of *flow* in *table*, in no order; times are aware datetimes."""

    def offsets(self, flow: Flow) -> OffsetReader:
        """The offset map of *flow*."""


class SparkReader:
    """A `StateReader` through a Spark session."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def rows(self, table: str, flow: Flow) -> list[dict[str, Any]]:
        """The rows of *flow* in *table*, in no order; times are aware datetimes."""
        found = self._tables.collect(self._tables.of(table, flow), table)
        return [{name: _with_zone(value) for name, value in row.asDict().items()} for row in found]

    def offsets(self, flow: Flow) -> OffsetReader:
        """The offset map of *flow*."""
        return OffsetTable(self._tables, flow)


@contextmanager
def open_reader(state_dir: str) -> Iterator[StateReader]:
    """A reader of *state_dir* for the block; starts a Spark session only if it must.

    Raises:
        StateError: The tables cannot be read.
    """
    if can_reach(state_dir):
        yield DeltaReader(state_dir)
        return
    with local_tables(state_dir) as tables:
        yield SparkReader(tables)


def _with_zone(value: object) -> object:
    """*value*; a time of Spark's, which is naive and local, as an aware one in UTC."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
