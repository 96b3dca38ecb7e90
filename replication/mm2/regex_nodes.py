"""Matches a parsed regular expression against a whole text without backtracking. Pure.

A set of positions in the text is an int: bit p stands for the position before character p. Each
node maps the positions at which it may start to those at which it may end, all of them at once, so
that no expression takes exponential time: ``(a+)+b`` costs as much as ``a+b``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Protocol

IsIn = Callable[[str], bool]
LINE_ENDS: Final = "\n\r\x85\u2028\u2029"


@dataclass(slots=True)
class Text:
    """A text with the positions of each character class that was looked for in it."""

    content: str
    masks: dict[int, int] = field(default_factory=dict)

    @property
    def everywhere(self) -> int:
        """All positions, the one after the last character among them."""
        return (1 << (len(self.content) + 1)) - 1


class Node(Protocol):
    """A part of an expression."""

    def ends(self, starts: int, text: Text) -> int:
        """The positions at which a match that begins at one of *starts* may end."""


@dataclass(frozen=True, slots=True)
class Char:
    """One character of a class."""

    is_in: IsIn

    def mask(self, text: Text) -> int:
        """The positions of the characters that belong to the class."""
        key = id(self)
        if key not in text.masks:
            found = (1 << at for at, char in enumerate(text.content) if self.is_in(char))
            text.masks[key] = reduce(or_, found, 0)
        return text.masks[key]

    def ends(self, starts: int, text: Text) -> int:
        """One further than those of *starts* where the character fits."""
        return (starts & self.mask(text)) << 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]

    def ends(self, starts: int, text: Text) -> int:
        """Where the last part may end."""
        for part in self.parts:
            if not starts:
                break
            starts = part.ends(starts, text)
        return starts


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts."""

    parts: tuple[Node, ...]

    def ends(self, starts: int, text: Text) -> int:
        """Where any part may end."""
        return reduce(or_, (part.ends(starts, text) for part in self.parts), 0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, *least* to *most* times; without limit if *most* is None."""

    part: Node
    least: int
    most: int | None

    def ends(self, starts: int, text: Text) -> int:
        """Where any permitted number of repetitions may end."""
        # In more repetitions than characters some are empty: their number makes no difference.
        longest = len(text.content) + 1
        for _ in range(min(self.least, longest)):
            before, starts = starts, self.part.ends(starts, text)
            if starts in (0, before):
                break
        reached = new = starts
        left = longest if self.most is None else min(self.most - self.least, longest)
        while new and left:
            new = self.part.ends(new, text) & ~reached
            reached |= new
            left -= 1
        return reached


@dataclass(frozen=True, slots=True)
class Possessive:
    """A character, as often as possible up to *most*: a shorter run is not tried."""

    part: Char
    least: int
    most: int | None

    def ends(self, starts: int, text: Text) -> int:
        """Where the longest run from each of *starts* ends, if it is long enough."""
        mask, found = self.part.mask(text), 0
        for start in range(len(text.content) + 1):
            if not starts >> start & 1:
                continue
            end = start
            while mask >> end & 1 and (self.most is None or end - start < self.most):
                end += 1
            if end - start >= self.least:
                found |= 1 << end
        return found


@dataclass(frozen=True, slots=True)
class Look:
    """A condition on what follows or precedes a position, which consumes nothing."""

    part: Node
    is_ahead: bool
    is_negative: bool

    def ends(self, starts: int, text: Text) -> int:
        """Those of *starts* for which the condition holds."""
        if self.is_ahead:
            positions = (1 << at for at in range(len(text.content) + 1) if starts >> at & 1)
            found = reduce(or_, (at for at in positions if self.part.ends(at, text)), 0)
        else:
            found = self.part.ends(text.everywhere, text)
        return starts & (~found if self.is_negative else found)


@dataclass(frozen=True, slots=True)
class Place:
    r"""A condition on the position itself: ``^``, ``$``, ``\b`` and the like."""

    kind: str
    is_word: IsIn

    def ends(self, starts: int, text: Text) -> int:
        """Those of *starts* for which the condition holds."""
        content, last = text.content, len(text.content)
        if self.kind in "^AG":
            return starts & 1
        if self.kind in "$Zz":
            allowed = 1 << last
            if self.kind != "z" and content[-1:] and content[-1] in LINE_ENDS:
                width = 2 if content.endswith("\r\n") else 1
                allowed |= 1 << (last - width)
            return starts & allowed
        words = [False, *map(self.is_word, content), False]
        borders = (1 << at for at in range(last + 1) if words[at] != words[at + 1])
        found = reduce(or_, borders, 0)
        return starts & (found if self.kind == "b" else ~found)


def matches(node: Node, content: str) -> bool:
    """Whether *node* matches *content* from its beginning to its end."""
    text = Text(content)
    return bool(node.ends(1, text) >> len(content) & 1)
