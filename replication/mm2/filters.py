"""MirrorMaker 2's include and exclude lists of names and regexes. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from replication.mm2.java_regex import parse
from replication.mm2.regex_chars import PatternError
from replication.mm2.regex_nodes import Node, matches

SHOWN: Final = 200
"""How much of a wrong item an error shows, in characters."""


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name if an include item matches the whole name and no exclude item does.

    Items are names or Java regexes. An empty include list accepts nothing.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def accepts(self, name: str) -> bool:
        """Returns whether *name* is included and not excluded."""
        return _matches(self.include, name) and not _matches(self.exclude, name)


def pattern_problem(item: str) -> str | None:
    """Returns why *item* is not a valid pattern; None if it is valid."""
    try:
        _compile(item)
    except PatternError as error:
        shown = item if len(item) <= SHOWN else f"{item[:SHOWN]}.."
        return f"{shown!r} is not a supported pattern ({error}); write a name or a Java regex"
    return None


def _matches(items: Iterable[str], name: str) -> bool:
    # One by one and not joined with "|", so that flags and groups of one item do not affect others.
    return any(matches(_compile(item), name) for item in items)


@lru_cache(maxsize=4096)
def _compile(item: str) -> Node:
    return parse(item)
