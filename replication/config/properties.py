"""Reads Java's ``.properties`` format by the grammar of ``java.util.Properties``. Pure."""

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_BAD_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def parse_properties(text: str) -> Iterator[tuple[str, str, int]]:
    r"""Yields each key and value with its first line's number, in file order, with duplicates.

    Raises:
        ValueError: A ``\u`` is not followed by four hexadecimal digits.
    """
    for line, number in _logical_lines(text):
        if _BAD_UNICODE.search(line):
            raise ValueError(f"line {number}: \\u must be followed by four hexadecimal digits")
        key = _KEY.match(line)
        separator = _SEPARATOR.match(line, key.end() if key else 0)
        if key and separator:
            yield _unescape(key[0]), _unescape(line[separator.end() :]), number


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yields the lines but blank ones and comments; one that ends in a backslash is continued."""
    continued, start = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not continued:
            if not line or line[0] in "#!":
                continue
            start = number
        joined = continued + line
        is_continued = (len(joined) - len(joined.rstrip("\\"))) % 2
        continued = joined[:-1] if is_continued else ""
        if not is_continued:
            yield joined, start
    if continued:
        yield continued, start


def _unescape(text: str) -> str:
    return _ESCAPE.sub(
        lambda escape: (
            chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])
        ),
        text,
    )
