"""How figures, times and lists are written on a page. Pure."""

import time
from collections.abc import Mapping
from typing import Final

from replication.config.limits import bytes_text
from replication.figures.lag import duration_text
from replication.figures.observation import seconds_of, text_of

_WHOLE_FROM: Final = 100
"""From here on a number is shown without decimals."""

LONGEST: Final = 600
"""Characters of a text that a list shows; what is longer is said to be so."""


def number(value: float | None, *, digits: int = 1) -> str:
    """Returns a number as a page shows it; a dash for an unknown one."""
    if value is None:
        return "-"
    places = 0 if float(value).is_integer() or abs(value) >= _WHOLE_FROM else digits
    return f"{value:,.{places}f}".replace(",", "\u202f")


def counted(count: float | None, noun: str) -> str:
    """Returns how many there are of something: ``1 record``, ``12 records``."""
    return "unknown" if count is None else f"{number(count)} {noun}{'' if count == 1 else 's'}"


def span(seconds: float | None) -> str:
    """Returns *seconds* as a person says them: ``41.5 ms``, ``4.2 s``, ``3 min 32 s``."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"-{span(-seconds)}"
    if round(seconds) >= 60:  # noqa: PLR2004 - a minute
        return duration_text(seconds)
    milliseconds = round(seconds * 1000, 1)
    if 0 < milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{number(milliseconds)} ms"
    return f"{number(round(seconds, 1 if seconds < 10 else 0))} s"  # noqa: PLR2004 - two digits


def rate(bytes_per_second: float | None) -> str:
    """Returns bytes a second as people write them: ``1.5 MB/s``."""
    return "-" if bytes_per_second is None else bytes_text(bytes_per_second)


def size(count: float | None) -> str:
    """Returns bytes as people write them: ``1.5 MB``."""
    return rate(count).removesuffix("/s")


def ago(text: str | None) -> str:
    """Returns how long ago a time in UTC was; "" for an unknown one."""
    return "" if text is None else f"{duration_text(time.time() - seconds_of(text))} ago"


def moment(seconds: float | None) -> str:
    """Returns epoch seconds as a person reads them, in UTC; a dash if they are unknown."""
    return "-" if seconds is None else stamp(text_of(seconds))


def stamp(text: str) -> str:
    """Returns a time in UTC as a person reads it."""
    return text[:19].replace("T", " ")


def clock(at: float) -> str:
    """Returns the time *at* of a day, in UTC."""
    return text_of(at)[11:19]


def cut(text: str, most: int = LONGEST) -> str:
    """Returns *text*, or its beginning and how much more there is."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({counted(len(text) - most, 'character')} more)"


def about(details: Mapping[str, str | int]) -> str:
    """Returns what an event is about: ``orders-3, offsets 120 to 129``."""
    left = dict(details)
    parts = []
    topic, partition = left.pop("topic", None), left.pop("partition", None)
    if topic is not None:
        parts.append(str(topic) if partition is None else f"{topic}-{partition}")
    elif partition is not None:
        parts.append(f"partition {partition}")
    begin, until = left.get("offset_from"), left.get("offset_until")
    if isinstance(begin, int) and isinstance(until, int) and begin < until:
        del left["offset_from"], left["offset_until"]
        last = until - 1
        parts.append(f"offset {begin}" if last == begin else f"offsets {begin} to {last}")
    return ", ".join([*parts, *(f"{key.replace('_', ' ')} {left[key]}" for key in sorted(left))])
