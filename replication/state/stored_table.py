"""What can be done with one Delta table, whichever library does it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class Before(NamedTuple):
    """The rows whose *column* holds an earlier time than *time*, which has a time zone."""

    column: str
    time: datetime


class StoredTable(Protocol):
    """One table. Its methods raise the errors of the library behind it."""

    def exists(self) -> bool:
        """Returns whether it was ever created; the other methods but `append` need that."""

    def append(self, rows: Sequence[Mapping[str, Any]], schema: str) -> int | None:
        """Appends *rows* in one commit, and creates the table for the first; without any, too.

        Args:
            rows: Columns by name; an absent one is null. Times have a time zone.
            schema: The columns as in SQL: ``topic string, partition int``.

        Returns:
            How many small files the table has by now; None if that would take a query.
        """

    def files(self) -> int:
        """Returns how many files the table has."""

    def delete(self, condition: str, before: Before | None) -> None:
        """Deletes the rows that meet an SQL *condition* and, if given, *before*."""

    def properties(self) -> dict[str, str]:
        """Returns the table's properties."""

    def created_at(self) -> datetime:
        """Returns when the table was created, with a time zone."""

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets *properties* in one commit; the others stay."""

    def outdated_properties(self) -> dict[str, str]:
        """Returns the properties that new tables have, and this one does not."""

    def merge_files(self, *, only_small: bool = False) -> None:
        """Merges small files into large ones, as far as possible in one commit.

        Args:
            only_small: Leave what is large enough for reading as it is. What this takes does not
                grow with the table.
        """

    def vacuum(self) -> None:
        """Removes the files that no version of the retention time holds."""
