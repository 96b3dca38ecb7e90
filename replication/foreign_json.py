"""JSON that somebody else may have written, as far as it is one that we would write. Pure.

Whoever may write a record, an object or an answer may put anything into it. What comes out of here
is small enough, has an end, and can be written again: each text is Unicode, and no number is NaN.
What types and which bounds its values must have is the business of whoever asks.
"""

import json
from typing import Any, Final, NoReturn

MOST_BYTES: Final = 8 << 20
"""More than any word, request, change or answer of a registry has."""

LARGEST: Final = 2**63 - 1
"""The largest number of Kafka's protocol, and of Java."""


def read_json(data: bytes | str, most: int = MOST_BYTES) -> Any:  # noqa: ANN401 - whatever it is
    """Returns what *data* says, which has at most so many bytes or characters.

    Raises:
        ValueError: It is no such JSON; the error says why, without the content.
    """
    if len(data) > most:
        raise ValueError(f"it has {len(data)} bytes, and at most {most} are read")
    text = data.decode() if isinstance(data, bytes) else data  # json's own lets surrogates pass
    try:
        found = json.loads(text, parse_constant=_refuse)
        if "\\u" in text:  # by which half a character can be written, which nobody can print
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("brackets within brackets without an end") from None
    return found


def text(value: object) -> str:
    """Returns *value*, which must be text."""
    if type(value) is not str:
        raise TypeError(f"text is missing, got {type(value).__name__}")
    return value


def whole(value: object, least: int = 0, most: int = LARGEST) -> int:
    """Returns *value*, which must be a whole number within bounds; true is none."""
    if type(value) is not int:
        raise TypeError(f"a whole number is missing, got {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"a number from {least} to {most} is missing")
    return value


def number(value: object) -> float:
    """Returns *value*, which must be a finite number that Kafka could have."""
    if type(value) not in (int, float):
        raise TypeError(f"a number is missing, got {type(value).__name__}")
    if not -LARGEST <= value <= LARGEST:  # type: ignore[operator]  # NaN is nowhere
        raise ValueError("a number is out of all bounds")
    return value  # type: ignore[return-value]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
