"""Matches a parsed regular expression against a whole text without backtracking. Pure.

A set of positions in the text is an int: bit p stands for the position before character p. Each
node maps the positions at which it may start to those at which it may end, all of them at once, or
back from the ends to the starts. Whatever an expression holds, a part that is repeated is tried
once at each position, and a condition on what follows or precedes is looked at once for a whole
text. So the time grows with the square of the text, at most with its cube, however deep a part is
nested: ``(a+)+b`` costs as much as ``a+b``, and look-aheads in each other as much as in a row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Protocol

IsIn = Callable[[str], bool]
LINE_ENDS: Final = "\n\r\x85\u2028\u2029"


@dataclass(slots=True)
class Text:
    """A text, and what was found in it: of a part, by its identity."""

    content: str
    masks: dict[int, int] = field(default_factory=dict)
    steps: dict[tuple[int, int, bool], int] = field(default_factory=dict)
    runs: dict[int, list[int]] = field(default_factory=dict)

    @property
    def everywhere(self) -> int:
        """All positions, the one after the last character among them."""
        return (1 << (len(self.content) + 1)) - 1


class Node(Protocol):
    """A part of an expression."""

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns where a match from one of *at* may end; *back*: where it may begin."""


@dataclass(frozen=True, slots=True)
class Char:
    """One character of a class."""

    is_in: IsIn

    def mask(self, text: Text) -> int:
        """Returns the positions of the characters that belong to the class."""
        key = id(self)
        if key not in text.masks:
            found = (1 << at for at, char in enumerate(text.content) if self.is_in(char))
            text.masks[key] = reduce(or_, found, 0)
        return text.masks[key]

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns one further than those of *at* where the character fits."""
        return at >> 1 & self.mask(text) if back else (at & self.mask(text)) << 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns the places beyond the last part."""
        for part in reversed(self.parts) if back else self.parts:
            if not at:
                break
            at = part.reach(at, text, back=back)
        return at


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """One of several parts."""

    parts: tuple[Node, ...]

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns the places beyond any part."""
        return reduce(or_, (part.reach(at, text, back=back) for part in self.parts), 0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, *least* to *most* times; without limit if *most* is None."""

    part: Node
    least: int
    most: int | None

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns the places beyond any permitted number of repetitions."""
        # In more repetitions than characters some are empty: their number makes no difference.
        longest = len(text.content) + 1
        for _ in range(min(self.least, longest)):
            before, at = at, self._once(at, text, back=back)
            if at in (0, before):
                break
        reached = new = at
        left = longest if self.most is None else min(self.most - self.least, longest)
        while new and left:
            new = self._once(new, text, back=back) & ~reached
            reached |= new
            left -= 1
        return reached

    def _once(self, at: int, text: Text, *, back: bool) -> int:
        """Returns the ends of one repetition: each position is tried once in a text."""
        if isinstance(self.part, Char):
            return self.part.reach(at, text, back=back)
        found = 0
        for position in _positions(at):
            key = (id(self.part), position, back)
            if key not in text.steps:
                text.steps[key] = self.part.reach(1 << position, text, back=back)
            found |= text.steps[key]
        return found


@dataclass(frozen=True, slots=True)
class Possessive:
    """A character, as often as possible up to *most*: a shorter run is not tried."""

    part: Char
    least: int
    most: int | None

    def reach(self, at: int, text: Text, *, back: bool) -> int:
        """Returns the places beyond the longest run from one of *at*, if it is long enough."""
        ends, found = self._ends(text), 0
        for start in range(len(ends)) if back else _positions(at):
            end = ends[start] if self.most is None else min(ends[start], start + self.most)
            if end - start >= self.least and (not back or at >> end & 1):
                found |= 1 << (start if back else end)
        return found

    def _ends(self, text: Text) -> list[int]:
        """Returns for each position the end of the run of fitting characters from there."""
        key = id(self.part)
        if key not in text.runs:
            mask, end = self.part.mask(text), len(text.content)
            ends = [end]
            for start in reversed(range(len(text.content))):
                end = end if mask >> start & 1 else start
                ends.append(end)
            text.runs[key] = ends[::-1]
        return text.runs[key]


@dataclass(frozen=True, slots=True)
class Look:
    """A condition on what follows or precedes a position, which consumes nothing."""

    part: Node
    is_ahead: bool
    is_negative: bool

    def reach(self, at: int, text: Text, *, back: bool) -> int:  # noqa: ARG002 - it goes nowhere
        """Returns those of *at* for which the condition holds."""
        key = id(self)
        if key not in text.masks:  # a part that follows is read from its ends, which are anywhere
            found = self.part.reach(text.everywhere, text, back=self.is_ahead)
            text.masks[key] = text.everywhere & ~found if self.is_negative else found
        return at & text.masks[key]


@dataclass(frozen=True, slots=True)
class PatternPlace:
    r"""A condition on the position itself: ``^``, ``$``, ``\b`` and the like."""

    kind: str
    is_word: IsIn

    def reach(self, at: int, text: Text, *, back: bool) -> int:  # noqa: ARG002 - it goes nowhere
        """Returns those of *at* for which the condition holds."""
        content, last = text.content, len(text.content)
        if self.kind in "^AG":
            return at & 1
        if self.kind in "$Zz":
            allowed = 1 << last
            if self.kind != "z" and content[-1:] and content[-1] in LINE_ENDS:
                width = 2 if content.endswith("\r\n") else 1
                allowed |= 1 << (last - width)
            return at & allowed
        words = [False, *map(self.is_word, content), False]
        borders = (1 << one for one in range(last + 1) if words[one] != words[one + 1])
        found = reduce(or_, borders, 0)
        return at & (found if self.kind == "b" else ~found)


def matches(node: Node, content: str) -> bool:
    """Returns whether *node* matches *content* from its beginning to its end."""
    text = Text(content)
    return bool(node.reach(1, text, back=False) >> len(content) & 1)


def _positions(bits: int) -> Iterator[int]:
    """Yields the positions of a set, from the first on."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
