r"""Parses Java's regular expressions (``java.util.regex.Pattern``). Pure.

Everything that Java has is understood, except what cannot be matched in bounded time or means
nothing for a name: back references, atomic groups, possessive quantifiers of groups, the flags
``x`` and ``U``, ``\X``, ``\N``, ``\b{g}``, and ``\p{..}`` of scripts and blocks.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Protocol

# Matches a parsed regular expression against a whole text without backtracking.
#
# A set of positions in the text is an int: bit p stands for the position before character p. Each
# node maps the positions at which it may start to those at which it may end, all of them at once,
# or back from the ends to the starts. Whatever an expression holds, a part that is repeated is
# tried once at each position, and a condition on what follows or precedes is looked at once for a
# whole text. So the time grows with the square of the text, at most with its cube, however deep a
# part is nested: ``(a+)+b`` costs as much as ``a+b``, and look-aheads in each other as much as in
# a row.

IsIn = Callable[[str], bool]
LINE_ENDS: Final = "\n\r\x85\u2028\u2029"


@dataclass(slots=True)
class Text:
    """A text, and what was found in it: of a part, by its identity."""

    content: str
    masks: dict[int, int] = field(default_factory=dict)
    steps: dict[tuple[int, int, bool], int] = field(default_factory=dict)

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
class Look:
    """A condition on what follows or precedes a position, which consumes nothing."""

    part: Node
    is_ahead: bool
    is_negative: bool

    def reach(self, at: int, text: Text, *, back: bool) -> int:  # noqa: ARG002 - it goes nowhere
        key = id(self)
        if key not in text.masks:  # a part that follows is read from its ends, which are anywhere
            found = self.part.reach(text.everywhere, text, back=self.is_ahead)
            text.masks[key] = text.everywhere & ~found if self.is_negative else found
        return at & text.masks[key]


def _possessive(part: Char, least: int, most: int | None) -> Node:
    """Returns *part* as often as possible up to *most*: a shorter run is not tried."""
    ended = Look(part, is_ahead=True, is_negative=True)
    if most is None:
        return Sequence((Repeat(part, least, None), ended))
    longest = Repeat(part, most, most)
    if least == most:
        return longest
    return PatternChoice((longest, Sequence((Repeat(part, least, most - 1), ended))))


@dataclass(frozen=True, slots=True)
class PatternPlace:
    r"""A condition on the position itself: ``^``, ``$``, ``\b`` and the like."""

    kind: str

    def reach(self, at: int, text: Text, *, back: bool) -> int:  # noqa: ARG002 - it goes nowhere
        content, last = text.content, len(text.content)
        if self.kind in "^AG":
            return at & 1
        if self.kind in "$Zz":
            allowed = 1 << last
            if self.kind != "z" and content[-1:] and content[-1] in LINE_ENDS:
                width = 2 if content.endswith("\r\n") else 1
                allowed |= 1 << (last - width)
            return at & allowed
        words = [False, *map(is_word, content), False]
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


# The character classes of Java's regular expressions.


def _ascii(chars: str) -> IsIn:
    members = frozenset(chars)
    return members.__contains__


def _category(start: str) -> IsIn:
    return lambda char: unicodedata.category(char).startswith(start)


def negate(is_in: IsIn) -> IsIn:
    return lambda char: not is_in(char)


def union(*classes: IsIn) -> IsIn:
    if len(classes) == 1:
        return classes[0]
    return lambda char: any(is_in(char) for is_in in classes)


def intersection(*classes: IsIn) -> IsIn:
    if len(classes) == 1:
        return classes[0]
    return lambda char: all(is_in(char) for is_in in classes)


_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
_DIGIT: Final = "0123456789"
_PUNCT: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_GRAPH: Final = _LOWER + _UPPER + _DIGIT + _PUNCT
_BLANK: Final = " \t\xa0\u1680\u180e\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

is_word: Final = _ascii(_LOWER + _UPPER + _DIGIT + "_")
SHORT: Final = {
    "d": _ascii(_DIGIT),
    "w": is_word,
    "s": _ascii(" \t\n\x0b\f\r"),
    "h": _ascii(_BLANK),
    "v": _ascii("\n\x0b\f\r\x85\u2028\u2029"),
}
"""Class of ``\\d`` and so on; the capital letter is its opposite."""

_PROPERTIES: Final = {
    "Lower": _ascii(_LOWER),
    "Upper": _ascii(_UPPER),
    "ASCII": str.isascii,
    "Alpha": _ascii(_LOWER + _UPPER),
    "Digit": _ascii(_DIGIT),
    "Alnum": _ascii(_LOWER + _UPPER + _DIGIT),
    "Punct": _ascii(_PUNCT),
    "Graph": _ascii(_GRAPH),
    "Print": _ascii(_GRAPH + " "),
    "Blank": _ascii(" \t"),
    "Cntrl": _ascii("".join(map(chr, (*range(0x20), 0x7F)))),
    "XDigit": _ascii(_DIGIT + "abcdefABCDEF"),
    "Space": SHORT["s"],
    "IsAlphabetic": str.isalpha,
    "IsLetter": _category("L"),
    "IsDigit": _category("Nd"),
    "IsLowercase": str.islower,
    "IsUppercase": str.isupper,
    "IsPunctuation": _category("P"),
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaLetter": _category("L"),
    "javaDigit": _category("Nd"),
    "javaLetterOrDigit": union(_category("L"), _category("Nd")),
}
_CATEGORY: Final = re.compile("L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfson]?")
_CASED: Final = {
    **dict.fromkeys(("Lower", "Upper"), _PROPERTIES["Alpha"]),
    **dict.fromkeys(
        ("Lu", "Ll", "Lt", "IsLowercase", "IsUppercase", "javaLowerCase", "javaUpperCase"),
        lambda char: unicodedata.category(char) in ("Lu", "Ll", "Lt"),
    ),
}

# Reads a pattern.

DEEPEST: Final = 100
LONGEST: Final = 10_000
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_OCTAL: Final = re.compile(r"0([0-3]?[0-7]{1,2})")
_PROPERTY: Final = re.compile(r"(?:\{([^{}]*)\}|(.))", re.DOTALL)
EMPTY_PATTERN: Final = Sequence(())
_COUNT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAME: Final = re.compile(r"\?<[A-Za-z][A-Za-z0-9]*>")
_LOOK: Final = re.compile(r"\?(<?)([=!])")


class PatternError(ValueError):
    """Java would reject the expression, or it has a form that is not supported."""


def parse(pattern: str) -> Node:
    """Returns the expression that *pattern* describes.

    Raises:
        PatternError: It is invalid or not supported; the text says where and why.
    """
    if len(pattern) > LONGEST:
        raise PatternError(f"longer than {LONGEST} characters")
    parser = _Parser(pattern)
    node = parser.choice(0)
    if parser.at < len(pattern):
        raise parser.error("unmatched )")
    return node


class _Parser:
    """A position in a pattern, with the flags that apply there."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()

    def error(self, text: str) -> PatternError:
        return PatternError(f"{text} at position {self.at}")

    def peek(self, width: int = 1) -> str:
        """Returns the next characters, or what is left of them."""
        return self.pattern[self.at : self.at + width]

    def take(self, text: str) -> bool:
        """Moves past *text* if it comes next, and says whether it did."""
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def literal(self, char: str) -> Char:
        return Char(self.span(char, char))

    def span(self, first: str, last: str) -> IsIn:
        """Returns the characters from *first* to *last*; with flag i, ASCII ones of either case."""
        if "i" not in self.flags:
            return lambda char: first <= char <= last

        def is_in(char: str) -> bool:
            other = char.swapcase() if char.isascii() else char
            return first <= char <= last or first <= other <= last

        return is_in

    def quoted(self) -> str:
        r"""Returns the text up to ``\E``, or the rest."""
        text, end, _ = self.pattern[self.at :].partition(r"\E")
        self.at += len(text) + len(end)
        return text

    def escaped(self) -> str | IsIn:
        """Returns the character or class after a backslash, inside or outside of brackets."""
        char = self.peek()
        if not char:
            raise self.error("backslash at the end")
        if char.lower() in SHORT:
            self.at += 1
            return SHORT[char] if char in SHORT else negate(SHORT[char.lower()])
        if char in "pP":
            self.at += 1
            return self.property(is_negative=char == "P")
        if number := _HEX.match(self.pattern, self.at) or _OCTAL.match(self.pattern, self.at):
            self.at = number.end()
            digits = next(group for group in number.groups() if group)
            code = int(digits, 8 if number.re is _OCTAL else 16)
            if code > sys.maxunicode:
                raise self.error("no such character")
            return chr(code)
        if char == "c" and len(self.peek(2)) > 1:
            self.at += 2
            return chr(ord(self.pattern[self.at - 1]) ^ 64)
        if char in _CONTROLS:
            self.at += 1
            return _CONTROLS[char]
        if char.isascii() and char.isalnum():
            what = "back reference" if char in "123456789k" else rf"\{char}"
            raise self.error(f"{what} is not supported")
        self.at += 1
        return char

    def property(self, *, is_negative: bool) -> IsIn:
        r"""Returns the class whose name follows ``\p`` or ``\P``."""
        found = _PROPERTY.match(self.pattern, self.at)
        if found is None:
            raise self.error(r"\p is not supported")
        name = found[1] or found[2] or ""
        category = _CATEGORY.fullmatch(name.removeprefix("Is"))
        short = category[0] if category else name
        if "i" in self.flags and short in _CASED:
            is_in = _CASED[short]
        elif category:
            is_in = _category(short)
        elif name in _PROPERTIES:
            is_in = _PROPERTIES[name]
        else:
            raise self.error(rf"\p{found[0]} is not supported")
        self.at = found.end()
        return negate(is_in) if is_negative else is_in

    def char_class(self, depth: int) -> IsIn:
        """Returns the class in brackets, whose opening one is behind."""
        if depth > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST} levels")
        is_negative = self.take("^")
        operands = [self.operand(depth)]
        while self.take("&&"):
            operands.append(self.operand(depth))
        if not self.take("]"):
            raise self.error("missing ]")
        found = intersection(*(union(*members) for members in operands if members))
        return negate(found) if is_negative else found

    def operand(self, depth: int) -> list[IsIn]:
        """Returns what is united up to ``&&`` or the closing bracket, which never comes first."""
        members: list[IsIn] = []
        while self.peek() and self.peek(2) != "&&" and not (members and self.peek() == "]"):
            if self.take("["):
                members.append(self.char_class(depth + 1))
            elif self.take(r"\Q"):
                members += (self.span(char, char) for char in self.quoted())
            else:
                members.append(self.range())
        return members

    def range(self) -> IsIn:
        """Returns a character, an escape, or the characters from one to another."""
        first = self.member()
        if not isinstance(first, str):
            return first
        after = self.pattern[self.at + 1 : self.at + 2]
        if self.peek() != "-" or after in ("", "]", "["):
            return self.span(first, first)
        self.at += 1
        last = self.member()
        if not isinstance(last, str) or last < first:
            raise self.error("illegal character range")
        return self.span(first, last)

    def member(self) -> str | IsIn:
        """Returns a character or class inside brackets."""
        self.at += 1
        char = self.pattern[self.at - 1]
        return self.escaped() if char == "\\" else char

    def choice(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST} levels")
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else PatternChoice(tuple(parts))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.take(r"\Q"):
                if quoted := [self.literal(char) for char in self.quoted()]:
                    parts += [*quoted[:-1], self.quantified(quoted[-1])]
            elif not self.take(r"\E"):
                parts.append(self.quantified(self.atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quantified(self, part: Node) -> Node:
        least, most = 0, None
        if self.take("?"):
            most = 1
        elif self.take("+"):
            least = 1
        elif not self.take("*"):
            if self.peek() != "{":
                return part
            count = _COUNT.match(self.pattern, self.at)
            if count is None:
                raise self.error("illegal repetition")
            self.at = count.end()
            least = int(count[1])
            most = int(count[3]) if count[3] else None if count[2] else least
            if most is not None and most < least:
                raise self.error("illegal repetition range")
        if self.take("+"):
            if not isinstance(part, Char):
                raise self.error("possessive quantifier of a group is not supported")
            return _possessive(part, least, most)
        self.take("?")  # which repetition is tried first makes no difference to a whole match
        return Repeat(part, least, most)

    def atom(self, depth: int) -> Node:
        char = self.peek()
        if char in "*+?":
            raise self.error(f"dangling {char}")
        if char == "{":  # Java repeats nothing: a{2}{3} is a{2}
            return EMPTY_PATTERN
        self.at += 1
        match char:
            case "(":
                return self.group(depth + 1)
            case "[":
                return Char(self.char_class(depth + 1))
            case ".":
                return Char(negate(_ascii("" if "s" in self.flags else LINE_ENDS)))
            case "^" | "$":
                return PatternPlace(char)
            case _:
                return self.escape() if char == "\\" else self.literal(char)

    def group(self, depth: int) -> Node:
        outer = self.flags
        look = _LOOK.match(self.pattern, self.at)
        if start := look or _NAME.match(self.pattern, self.at):
            self.at = start.end()
        elif self.peek(2) == "?>":
            raise self.error("atomic group is not supported")
        elif self.peek() == "?":
            flags = _FLAGS.match(self.pattern, self.at)
            if flags is None:
                raise self.error("unknown group")
            self.at = flags.end()
            on, off = flags[1], flags[2] or ""
            for letter in on + off:
                if letter not in "idmsu":
                    raise self.error(f"flag {letter!r} is not supported")
            self.flags = self.flags.union(on).difference(off)
            if flags[3] == ")":  # until the end of the enclosing group
                return EMPTY_PATTERN
        node = self.choice(depth)
        if not self.take(")"):
            raise self.error("missing )")
        self.flags = outer
        return Look(node, is_ahead=not look[1], is_negative=look[2] == "!") if look else node

    def escape(self) -> Node:
        char = self.peek()
        if char and char in "bBAGZz":
            self.at += 1
            if char == "b" and self.peek() == "{":
                raise self.error(r"\b{..} is not supported")
            return PatternPlace(char)
        if self.take("R"):
            pair = Sequence((self.literal("\r"), self.literal("\n")))
            return PatternChoice((pair, Char(SHORT["v"])))
        found = self.escaped()
        return self.literal(found) if isinstance(found, str) else Char(found)
