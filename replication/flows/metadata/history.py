"""What the rounds of one flow did before: rows of a table, and what follows from them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from replication.flows.context import FlowContext
from replication.state.spark_reader import reader_of
from replication.state.tables import now

ValueT = TypeVar("ValueT")
Rows = Iterable[Mapping[str, Any]]


class FlowHistory(Generic[ValueT]):
    """The flow's rows of one table, read once.

    Args:
        context: The flow.
        table: The table.
        read: Turns rows, which come in any order, into the value that a round works with.
    """

    def __init__(self, context: FlowContext, table: str, read: Callable[[Rows], ValueT]) -> None:
        self._tables = context.tables
        self._flow = context.config.flow
        self._table = table
        self._read = read
        self._value: ValueT | None = None

    def get(self) -> ValueT:
        """Returns the value, which the caller brings up to date with what it appends.

        Raises:
            StateError: The table cannot be read.
        """
        if self._value is None:
            self._value = self._read(reader_of(self._tables).rows(self._table, self._flow))
        return self._value

    def forget(self) -> None:
        """Reads the table again at the next `get`: another process may have written to it."""
        self._value = None

    def append(self, rows: Rows) -> list[dict[str, Any]]:
        """Appends *rows*, and returns them with the flow and the time.

        Raises:
            StateError: The table cannot be written.
        """
        at = now()
        complete = [{"flow": str(self._flow), **row, "at": at} for row in rows]
        self._tables.append(self._table, complete)
        return complete
