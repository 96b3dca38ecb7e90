"""Lets SQL that asks the same JSON several times parse it once. Pure.

Catalyst does not. It evaluates what two branches have in common once only where both are evaluated
for certain, which nothing within a CASE is, and gives each ``from_json`` whose field is taken a
schema of that field alone, so that no two of them are the same any more. A column of its own below
the expression, which several places take, stays one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

CALL: Final = "from_json"
_TOKENS: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\w+|\s+|.""", re.DOTALL)
_UNSAFE: Final = re.compile(r"""->|--|/\*|\br['"]|failfast""", re.IGNORECASE)
"""A lambda, whose variables exist only within it; comments and raw strings, which are not read
here; and a mode that raises an error, which some CASE may keep from happening."""


def parsed_once(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns *texts* with a column in the place of each call that they make twice, and these.

    Args:
        texts: Expressions over the same columns.

    Returns:
        The texts, and the calls by the names of their columns.
    """
    parts = [list(_parts(text)) for text in texts]
    found = Counter(part for text in parts for part, is_call in text if is_call)
    calls = [call for call, count in found.items() if count > 1]
    names = {call: f"_parsed_{number}" for number, call in enumerate(calls)}
    changed = [
        "".join(names[part] if part in names and is_call else part for part, is_call in text)
        for text in parts
    ]
    return changed, {name: call for call, name in names.items()}


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yields *text* in parts, and which of them are outermost calls that may be taken out."""
    if _UNSAFE.search(text):
        yield text, False
        return
    tokens, at = _TOKENS.findall(text), 0
    while at < len(tokens):
        is_method = at > 0 and tokens[at - 1] == "."
        end = _end_of_call(tokens, at) if tokens[at].lower() == CALL and not is_method else None
        yield "".join(tokens[at : end or at + 1]), end is not None
        at = end or at + 1


def _end_of_call(tokens: Sequence[str], at: int) -> int | None:
    """Returns where the call of the function at *at* ends; None if it is no call."""
    depth = 0
    for number, word in enumerate(tokens[at + 1 :], start=at + 1):
        if word in {"(", ")"}:
            depth += 1 if word == "(" else -1
            if depth == 0:
                return number + 1
        elif depth == 0 and not word.isspace():
            return None
    return None
