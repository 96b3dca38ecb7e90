"""MirrorMaker 2's include and exclude lists of names and regexes. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from shlex import quote
from typing import Final

from replication.mm2.java_regex import (
    Char,
    Node,
    PatternChoice,
    PatternError,
    Repeat,
    Sequence,
    matches,
    parse,
)

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


def excluding(name: str) -> str:
    r"""Returns the option of ``topics`` and ``group-lists`` that leaves out *name* alone.

    An item of a list is a pattern: ``orders.v1`` would leave out ``orders-v1`` as well. What no
    list takes, such as the comma that separates items, stands in it as ``\x2C``.
    """
    item = re.sub(
        r"[^\w-]",
        lambda char: rf"\x{ord(char[0]):02X}" if char[0] in {",", *_QUOTES} else rf"\{char[0]}",
        name,
    )
    return f"--exclude {quote(item)}"


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


# Whether an item of a list can match a name at all, and if not, what its author meant.
#
# MirrorMaker 2 takes such items without a word: an exclude with a comment behind it excludes
# nothing.

LEGAL: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-*"
"""What names of topics and settings consist of. Kafka allows anything in a group's name.

An ACL of all topics has the name ``*``, which the lists of topics select or exclude as well.
"""

PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
"""A name that somebody has written out; a regex may have the form of one as well."""

COMMENT: Final = re.compile(r"\s[#!]")
_QUOTES: Final = ('"', "'")


def impossible(item: str, *, is_of_groups: bool) -> str | None:
    """Returns why *item*, a valid pattern, matches no name, and what to write; None if it may."""
    if is_of_groups:
        can_match = not COMMENT.search(item) and not item.startswith(_QUOTES)
        can_match = can_match and not item.endswith(_QUOTES)
    else:
        can_match = can_be(parse(item), LEGAL)
    return None if can_match else f"{item!r} can match no name: {_cause(item)}"


def can_be(node: Node, alphabet: str) -> bool:
    """Returns whether *node* may match a text of *alphabet*; conditions on places count as met."""
    if isinstance(node, Char):
        return any(map(node.is_in, alphabet))
    if isinstance(node, Sequence):
        return all(can_be(part, alphabet) for part in node.parts)
    if isinstance(node, PatternChoice):
        return any(can_be(part, alphabet) for part in node.parts)
    if isinstance(node, Repeat):
        return node.least == 0 or can_be(node.part, alphabet)
    return True


def _cause(item: str) -> str:
    if COMMENT.search(item):
        return (
            "what follows a value is a part of it, as in every file of Java's properties; write "
            "the comment on a line of its own"
        )
    if item.startswith(_QUOTES) or item.endswith(_QUOTES):
        return "quotes are a part of the value here; remove them"
    if re.search(r"\s", item):
        return "a name has no blanks; separate the items with commas"
    return "a name consists of A-Z a-z 0-9 . _ - only; write a name or a Java regex"
