"""Reads characters, escapes and character classes of Java's regular expressions. Pure."""

import re
import sys
from dataclasses import dataclass, replace
from typing import Final

from replication.mm2.char_classes import (
    SHORT,
    intersection,
    negate,
    nothing,
    property_class,
    span,
    union,
)
from replication.mm2.regex_nodes import Char, IsIn

DEEPEST: Final = 100
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_OCTAL: Final = re.compile(r"0([0-3]?[0-7]{1,2})")
_PROPERTY: Final = re.compile(r"(?:\{([^{}]*)\}|(.))", re.DOTALL)


class PatternError(ValueError):
    """Java would reject the expression, or it has a form that is not supported."""


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    dot_all: bool = False


class CharReader:
    """A position in a pattern, with the flags that apply there."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = _Flags()

    def error(self, text: str) -> PatternError:
        """Returns the error *text*, with the place where it was found."""
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

    def set_flags(self, on: str, off: str) -> None:
        """Changes the flags from here on."""
        for letter in on + off:
            if letter not in "idmsu":
                raise self.error(f"flag {letter!r} is not supported")
        for letters, value in ((on, True), (off, False)):
            if "i" in letters:
                self.flags = replace(self.flags, fold=value)
            if "s" in letters:
                self.flags = replace(self.flags, dot_all=value)

    def literal(self, char: str) -> Char:
        """Returns the character *char* itself."""
        return Char(span(char, char, fold=self.flags.fold))

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
        name = _PROPERTY.match(self.pattern, self.at)
        found = property_class(name[1] or name[2], fold=self.flags.fold) if name else None
        if name is None or found is None:
            raise self.error(rf"\p{name[0] if name else ''} is not supported")
        self.at = name.end()
        return negate(found) if is_negative else found

    def char_class(self, depth: int) -> IsIn:
        """Returns the class in brackets, whose opening one is behind."""
        if depth > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST} levels")
        is_negative = self.take("^")
        found, is_first = self.operand(depth)
        while self.take("&&"):
            other, is_empty = self.operand(depth)
            if not is_empty:
                found = other if is_first else intersection(found, other)
        if not self.take("]"):
            raise self.error("missing ]")
        return negate(found) if is_negative else found

    def operand(self, depth: int) -> tuple[IsIn, bool]:
        """Returns the union up to ``&&`` or the closing bracket, and whether it is empty."""
        found: IsIn = nothing
        is_empty = True
        while self.peek() and self.peek(2) != "&&" and (is_empty or self.peek() != "]"):
            if self.take("["):
                found, is_empty = union(found, self.char_class(depth + 1)), False
                continue
            if self.take(r"\Q"):
                for char in self.quoted():
                    found = union(found, span(char, char, fold=self.flags.fold))
                    is_empty = False
                continue
            found, is_empty = union(found, self.range()), False
        return found, is_empty

    def range(self) -> IsIn:
        """Returns a character, an escape, or the characters from one to another."""
        first = self.member()
        if not isinstance(first, str):
            return first
        after = self.pattern[self.at + 1 : self.at + 2]
        if self.peek() != "-" or after in ("", "]", "["):
            return span(first, first, fold=self.flags.fold)
        self.at += 1
        last = self.member()
        if not isinstance(last, str) or last < first:
            raise self.error("illegal character range")
        return span(first, last, fold=self.flags.fold)

    def member(self) -> str | IsIn:
        """Returns a character or class inside brackets."""
        self.at += 1
        char = self.pattern[self.at - 1]
        return self.escaped() if char == "\\" else char
