r"""Parses Java's regular expressions (``java.util.regex.Pattern``). Pure.

Everything that Java has is understood, except what cannot be matched in bounded time or means
nothing for a name: back references, atomic groups, possessive quantifiers of groups, the flags
``x`` and ``U``, ``\X``, ``\N``, ``\b{g}``, and ``\p{..}`` of scripts and blocks.
"""

import re
from typing import Final

from replication.mm2.char_classes import SHORT, anything, is_line_end, is_word, negate
from replication.mm2.regex_chars import DEEPEST, CharReader, PatternError
from replication.mm2.regex_nodes import (
    Char,
    Look,
    Node,
    PatternChoice,
    PatternPlace,
    Possessive,
    Repeat,
    Sequence,
)

LONGEST: Final = 10_000
EMPTY_PATTERN: Final = Sequence(())
_COUNT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAME: Final = re.compile(r"\?<[A-Za-z][A-Za-z0-9]*>")
_LOOKS: Final = {
    "?=": (True, False),
    "?!": (True, True),
    "?<=": (False, False),
    "?<!": (False, True),
}


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


class _Parser(CharReader):
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
            return Possessive(part, least, most)
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
                return Char(anything if self.flags.dot_all else negate(is_line_end))
            case "^" | "$":
                return PatternPlace(char, is_word)
            case _:
                return self.escape() if char == "\\" else self.literal(char)

    def group(self, depth: int) -> Node:
        outer = self.flags
        for start, (is_ahead, is_negative) in _LOOKS.items():
            if self.take(start):
                return Look(self.rest_of_group(depth), is_ahead, is_negative)
        if self.peek(2) == "?>":
            raise self.error("atomic group is not supported")
        if name := _NAME.match(self.pattern, self.at):
            self.at = name.end()
        elif self.peek() == "?":
            flags = _FLAGS.match(self.pattern, self.at)
            if flags is None:
                raise self.error("unknown group")
            self.at = flags.end()
            self.set_flags(flags[1], flags[2] or "")
            if flags[3] == ")":  # until the end of the enclosing group
                return Sequence(())
        node = self.rest_of_group(depth)
        self.flags = outer
        return node

    def rest_of_group(self, depth: int) -> Node:
        outer = self.flags
        node = self.choice(depth)
        if not self.take(")"):
            raise self.error("missing )")
        self.flags = outer
        return node

    def escape(self) -> Node:
        char = self.peek()
        if char and char in "bBAGZz":
            self.at += 1
            if char == "b" and self.peek() == "{":
                raise self.error(r"\b{..} is not supported")
            return PatternPlace(char, is_word)
        if self.take("R"):
            pair = Sequence((self.literal("\r"), self.literal("\n")))
            return PatternChoice((pair, Char(SHORT["v"])))
        found = self.escaped()
        return self.literal(found) if isinstance(found, str) else Char(found)
