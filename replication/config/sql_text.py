"""What the text of an expression of Spark SQL tells: is it whole, and the same each time?

A start compares the last records of the target with what the source's records become, so that an
expression must give the same bytes for the same record whenever it is evaluated. Spark knows most
functions that do not, but not all: those of `UNSTEADY` it calls deterministic. Pure.
"""

import re
from collections.abc import Iterator
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNSTEADY: Final = (
    _words("current_catalog current_database current_date current_schema current_time curdate")
    | _words("current_timestamp current_timezone current_user localtimestamp now session_user")
    | _words("input_file_block_length input_file_block_start input_file_name user version")
    | _words("java_method monotonically_increasing_id reflect spark_partition_id try_reflect")
    | _words("rand randn random randstr shuffle uniform uuid")
)
"""Functions whose value depends on when, where or by whom they are evaluated."""

FAILING: Final = _words("assert_true raise_error")
"""Functions whose failure would not name the record."""

_BARE: Final = _words(
    "current_catalog current_date current_schema current_time current_timestamp current_user "
    "localtimestamp session_user"
)
"""Those of `UNSTEADY` that are called without parentheses as well."""

_TYPES_OF_TIME: Final = _words("date timestamp timestamp_ltz timestamp_ntz")
_TIMES: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\Z)|(?P<comment>--|/\*)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>[^\W\d]\w*|`(?:[^`]|``)*`)|(?P<open>[('"`\[])|(?P<close>[)\]])|(?P<other>.)""",
    re.DOTALL,
)
_PAIRS: Final = {")": "(", "]": "["}
_ADVICE: Final = "it must give the same for the same record each time"


def sql_problems(expression: str) -> list[str]:
    """Returns what is wrong with *expression*, as far as its text tells; nothing if it may do."""
    if not expression.strip():
        return ["is empty; write an expression of Spark SQL, or remove the key"]
    tokens = [token for token in _tokens(expression) if token[0] != "space"]
    return [*_broken(tokens), *_unsteady(tokens)]


def is_time_of_day(text: str) -> bool:
    """Returns whether *text*, as a date or a time, means another one on another day."""
    return _TIMES.match(text) is not None


def failing(name: str) -> str:
    """Returns the problem of an expression that calls the function *name*, which fails a query."""
    return f"calls {name}, which fails for all topics; give NULL, which names the record"


def unsteady(name: str) -> str:
    """Returns the problem of an expression that calls the function *name*."""
    return f"calls {name}: {_ADVICE}"


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(expression):
        if found.lastgroup is not None:
            yield found.lastgroup, found.group()


def _broken(tokens: list[tuple[str, str]]) -> Iterator[str]:
    """Yields why the text is not one expression."""
    opened: list[str] = []
    for kind, text in tokens:
        if kind == "comment" or text == ";":
            yield f"has {text} outside of quotes; write one expression without comments"
            return
        if kind == "open" and text not in "([":
            yield f"has a {text} that is not closed"
            return
        if kind == "open":
            opened.append(text)
        elif kind == "close" and (not opened or opened.pop() != _PAIRS[text]):
            yield f"has a {text} that closes nothing"
            return
    if opened:
        yield f"has a {opened[-1]} that is not closed"


def _unsteady(tokens: list[tuple[str, str]]) -> Iterator[str]:
    """Yields what makes the value depend on more than the record."""
    found: dict[str, None] = {}
    around = zip([("", ""), *tokens], tokens, [*tokens[1:], ("", "")], strict=False)
    for (_, before), (kind, text), (kind_after, after) in around:
        name = text.lower()
        if kind != "name" or before == ".":
            continue
        if name == "select":
            found["is a subquery; an expression sees one record"] = None
        if name in UNSTEADY and (after == "(" or (name in _BARE and after != ".")):
            found[unsteady(name)] = None
        if name in FAILING and after == "(":
            found[failing(name)] = None
        if name == "unix_timestamp" and after == "(" and _is_without_arguments(tokens, text):
            found[unsteady("unix_timestamp()")] = None
        if name in _TYPES_OF_TIME and kind_after == "string" and is_time_of_day(after[1:]):
            found[f"has the time {name} {after}: {_ADVICE}"] = None
    yield from found


def _is_without_arguments(tokens: list[tuple[str, str]], name: str) -> bool:
    texts = [text for _, text in tokens]
    calls = (at for at, text in enumerate(texts) if text == name)
    return any(texts[at + 1 : at + 3] == ["(", ")"] for at in calls)
