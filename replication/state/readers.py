"""Reads a state directory for a command: without Spark where that is possible, else with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from replication.model import Flow
from replication.state.delta_reader import DeltaReader, can_reach
from replication.state.offset_rows import OffsetReader


class StateReader(Protocol):
    """What commands read of a state directory, and jobs where they start or look back."""

    def rows(self, table: str, flow: Flow) -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table*, in no order; times are aware datetimes."""

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of columns, for each value of *keys*."""

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""


def is_quick(state_dir: str) -> bool:
    """Returns whether the tables of *state_dir* answer at once: without Spark."""
    return can_reach(state_dir)


@contextmanager
def open_reader(state_dir: str, hadoop: Mapping[str, str]) -> Iterator[StateReader]:
    """Yields a reader of *state_dir* for the block; starts a Spark session only if it must.

    Args:
        state_dir: The state directory.
        hadoop: Hadoop's properties for it, where it is not on this machine.

    Raises:
        StateError: The tables cannot be read.
    """
    if can_reach(state_dir):
        yield DeltaReader(state_dir)
        return
    # Imported here because importing Spark takes as long as an answer without it.
    from replication.state.spark_reader import open_spark_reader  # noqa: PLC0415

    with open_spark_reader(state_dir, hadoop) as reader:
        yield reader
