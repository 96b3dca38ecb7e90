"""Reads a state directory for a command: without Spark where that is possible, else with it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from replication.config.state_access import StateAccess
from replication.model import Flow
from replication.state.delta_reader import DeltaReader
from replication.state.offset_rows import OffsetReader
from replication.state.open_storage import storage_for


class StateReader(Protocol):
    """What commands read of a state directory, and jobs where they start or look back."""

    def rows(self, table: str, flow: Flow, where: str = "true") -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table* of which the SQL *where* holds, in no order.

        Times are aware datetimes.
        """

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of columns, for each value of *keys*."""

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""


def is_quick(access: StateAccess) -> bool:
    """Returns whether the tables of a state directory answer at once: without Spark."""
    return storage_for(access).engine == "delta-rs"


@contextmanager
def open_reader(access: StateAccess) -> Iterator[StateReader]:
    """Yields a reader of a state directory for the block; starts a Spark session only if it must.

    Args:
        access: The state directory.

    Raises:
        StateError: The tables cannot be read.
    """
    storage = storage_for(access)
    if storage.engine == "delta-rs":
        yield DeltaReader(access.state_dir, storage)
        return
    # Imported here because importing Spark takes as long as an answer without it.
    from replication.state.spark_reader import open_spark_reader  # noqa: PLC0415

    with open_spark_reader(storage) as reader:
        yield reader
