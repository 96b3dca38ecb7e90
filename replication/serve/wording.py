"""Figures and times as a page shows them. Pure."""

import time
from collections.abc import Mapping

from replication.figures.document import seconds_of, text_of


def is_rows(value: object) -> bool:
    """Returns whether *value* is a list of things with names, which a page shows as a table."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def number(value: float | None, *, digits: int = 1) -> str:
    """Returns a number as a page shows it; a dash for an unknown one."""
    if value is None:
        return "-"
    if not float(value).is_integer():
        return f"{value:,.{digits}f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def milliseconds(value: float | None) -> str:
    """Returns seconds as milliseconds."""
    return "-" if value is None else number(round(value * 1000, 1))


def ago(text: str | None) -> str:
    """Returns how long ago a time in UTC was; "" for an unknown one."""
    return "" if text is None else f"{duration(time.time() - seconds_of(text))} ago"


def moment(seconds: float | None) -> str:
    """Returns epoch seconds as a person reads them, in UTC; a dash if they are unknown."""
    return "-" if seconds is None else text_of(seconds)[:19].replace("T", " ")


def duration(seconds: float | None) -> str:
    """Returns *seconds* as a person says it: 4 s, 12 min, 3 h, 2 d."""
    if seconds is None:
        return "-"
    for size, unit in ((172_800, "d"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'d': 86_400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
