"""SQL that Spark and delta-rs take alike. Pure."""

from collections.abc import Sequence


def literal(value: object) -> str:
    """Returns *value* as a string of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def names(columns: Sequence[str]) -> str:
    """Returns *columns* in a row, quoted: some of their names are words of SQL."""
    return ", ".join(f"`{column}`" for column in columns)


def newest_first(columns: Sequence[str]) -> str:
    """Returns the order in which the newest row by *columns* is the first."""
    return ", ".join(f"`{column}` DESC" for column in columns)
