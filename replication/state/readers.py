"""The reader of a state directory that a command takes: without Spark where it can."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication.config.state_access import StateAccess
from replication.state.delta import DeltaReader
from replication.state.storage import storage_for
from replication.state.table_reader import StateReader


def is_quick(access: StateAccess) -> bool:
    """Returns whether the tables of a state directory answer at once: without Spark."""
    return storage_for(access).is_quick


@contextmanager
def open_reader(access: StateAccess) -> Iterator[StateReader]:
    """Yields a reader of a state directory for the block; starts a Spark session only if it must.

    Args:
        access: The state directory.

    Raises:
        StateError: The tables cannot be read.
    """
    storage = storage_for(access)
    if storage.is_quick:
        yield DeltaReader(access.state_dir, storage)
        return
    # Imported here because importing Spark takes as long as an answer without it.
    from replication.state.tables import open_spark_reader  # noqa: PLC0415

    with open_spark_reader(storage) as reader:
        yield reader
