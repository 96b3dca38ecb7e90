"""What can be done with one Delta table, whichever library does it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

Engine = Literal["delta-rs", "spark"]

Rows = Sequence[Mapping[str, Any]]
"""Columns by name; an absent one is null. Times are aware datetimes."""

Query = Callable[[str], list[dict[str, Any]]]
"""Returns what SQL selects from a table, which it calls ``{table}``."""


class Before(NamedTuple):
    """The rows whose *column* holds an earlier time than *time*, which has a time zone."""

    column: str
    time: datetime


class Replacement(NamedTuple):
    """What takes the place of the rows that meet an SQL *condition*."""

    condition: str
    rows: Rows


class StoredTable(Protocol):
    """One table. Its methods raise the errors of the library behind it."""

    def exists(self) -> bool:
        """Returns whether it was ever created; the other methods but `append` need that."""

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from the table, which it calls ``{table}``.

        Identifiers are quoted by backticks, which both libraries take.

        Raises:
            DamagedTableError: The table is another one.
        """

    def append(self, rows: Rows, schema: str) -> int | None:
        """Appends *rows* in one commit, and creates the table for the first; without any as well.

        Args:
            rows: The rows.
            schema: The columns as in SQL: ``topic string, partition int``.

        Returns:
            How many small files the table has by now; None if that would take a query.
        """

    def rewrite(
        self, condition: str, schema: str, parts: Callable[[Query], Iterable[Replacement]]
    ) -> int:
        """Replaces the rows that meet *condition*; returns how many there are then.

        Args:
            condition: What all of *parts* have in common.
            schema: The columns as in SQL.
            parts: Reads the table and yields what replaces its rows, part by part. One commit may
                take one of them or all.
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


def literal(value: object) -> str:
    """Returns *value* as a string of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def names(columns: Sequence[str]) -> str:
    """Returns *columns* in a row, quoted: some of their names are words of SQL."""
    return ", ".join(f"`{column}`" for column in columns)


def newest_first(columns: Sequence[str]) -> str:
    """Returns the order in which the newest row by *columns* is the first."""
    return ", ".join(f"`{column}` DESC" for column in columns)
