"""The character classes of Java's regular expressions. Pure."""

import unicodedata
from typing import Final

from replication.mm2.regex_nodes import LINE_ENDS, IsIn


def _ascii(chars: str) -> IsIn:
    members = frozenset(chars)
    return members.__contains__


def _category(start: str) -> IsIn:
    return lambda char: unicodedata.category(char).startswith(start)


def negate(is_in: IsIn) -> IsIn:
    """Returns every character outside the class."""
    return lambda char: not is_in(char)


def union(one: IsIn, other: IsIn) -> IsIn:
    """Returns the characters of either class."""
    return lambda char: one(char) or other(char)


def intersection(one: IsIn, other: IsIn) -> IsIn:
    """Returns the characters of both classes."""
    return lambda char: one(char) and other(char)


def span(first: str, last: str, *, fold: bool) -> IsIn:
    """Returns the characters from *first* to *last*; with *fold*, ASCII letters of either case."""
    if not fold:
        return lambda char: first <= char <= last

    def is_in(char: str) -> bool:
        other = char.swapcase() if char.isascii() else char
        return first <= char <= last or first <= other <= last

    return is_in


def nothing(_: str) -> bool:
    """Returns the empty class."""
    return False


def anything(_: str) -> bool:
    """Returns every character."""
    return True


_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
_DIGIT: Final = "0123456789"
_PUNCT: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_GRAPH: Final = _LOWER + _UPPER + _DIGIT + _PUNCT
_BLANK: Final = " \t\xa0\u1680\u180e\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

is_line_end: Final = _ascii(LINE_ENDS)
is_word: Final = _ascii(_LOWER + _UPPER + _DIGIT + "_")
SHORT: Final = {
    "d": _ascii(_DIGIT),
    "w": is_word,
    "s": _ascii(" \t\n\x0b\f\r"),
    "h": _ascii(_BLANK),
    "v": _ascii("\n\x0b\f\r\x85\u2028\u2029"),
}
"""Class of ``\\d`` and so on; the capital letter is its opposite."""

_POSIX: Final = {
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
    "Space": _ascii(" \t\n\x0b\f\r"),
}
_UNICODE: Final = {
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
_CATEGORIES: Final = frozenset(
    (
        *"LMNPSZC",
        *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps"),
        *("Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs"),
        *("Co", "Cn"),
    )
)
_CASED: Final = {
    **dict.fromkeys(("Lower", "Upper"), _POSIX["Alpha"]),
    **dict.fromkeys(
        ("Lu", "Ll", "Lt", "IsLowercase", "IsUppercase", "javaLowerCase", "javaUpperCase"),
        lambda char: unicodedata.category(char) in ("Lu", "Ll", "Lt"),
    ),
}


def property_class(name: str, *, fold: bool) -> IsIn | None:
    r"""Returns the class of ``\p{name}``, None if it is not supported; *fold* ignores case."""
    short = name.removeprefix("Is") if name.removeprefix("Is") in _CATEGORIES else name
    if fold and short in _CASED:
        return _CASED[short]
    if short in _CATEGORIES:
        return _category(short)
    return _POSIX.get(name) or _UNICODE.get(name)
