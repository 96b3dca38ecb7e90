"""JSON that somebody else may have written, as far as it is one that we would write. Pure.

Whoever may write a record, an object or an answer may put anything into it. What comes out of here
is small enough, has an end, and can be written again: each text is Unicode, and no number is NaN.
What types and which bounds its values must have is the business of whoever asks; of a dataclass its
fields say it, both to what reads and to what writes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")

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


def json_object(value: object) -> dict[str, Any]:
    """Returns *value*, which must be an object."""
    if not isinstance(value, dict):
        raise TypeError(f"an object is missing, got {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Form:
    """How values of one type are in JSON.

    Args:
        read: Makes a value of JSON; raises KeyError, TypeError or ValueError if that is none.
        write: Makes JSON of a value.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def in_json(name: str) -> Mapping[str, str]:
    """Returns the metadata of a field that has another *name* in JSON; "" keeps it out."""
    return {"json": name}


def _unread(_found: object) -> NoReturn:
    raise TypeError("it is only written")


def written(write: Callable[[Any], Any]) -> Form:
    """Returns the form of what is only written."""
    return Form(_unread, write)


AS_TEXT: Final = written(str)
OR_NULL: Final = written(lambda value: value or None)
"""Null is what is empty."""


def from_json(kind: type[T], found: object) -> T:
    """Returns the value of a *kind* that *found* is, as `form` has it.

    Raises:
        KeyError: A field is missing.
        TypeError: A value is of another type.
        ValueError: A value is out of bounds, or none of its kind.
    """
    read: T = form(kind).read(found)  # type: ignore[arg-type]  # a class has a hash
    return read


def to_json(value: Any) -> Any:  # noqa: ANN401 - whatever has a form
    """Returns what `from_json` reads."""
    return form(value.__class__).write(value)


@cache
def form(kind: Any) -> Form:  # noqa: ANN401 - a type, or a special form
    """Returns the form of a type in JSON.

    A dataclass is an object that has all its fields; keys that it does not know are ignored. Whole
    numbers begin at 0. A type that is annotated with a `Form` has that one.
    """
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        own: Form = kind.__metadata__[-1]
        return own
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Literal:
        return Form(lambda value: _one_of(args, value), _same)
    if NoneType in args:
        some = form(next(arg for arg in args if arg is not NoneType))
        return Form(
            lambda value: None if value is None else some.read(value),
            lambda value: None if value is None else some.write(value),
        )
    if origin is tuple:
        item = form(args[0])
        return Form(lambda rows: tuple(map(item.read, rows)), lambda rows: [*map(item.write, rows)])
    if origin is Mapping:
        key, value = map(form, args)
        return Form(
            lambda found: {key.read(k): value.read(v) for k, v in json_object(found).items()},
            lambda known: {k: value.write(v) for k, v in known.items()},
        )
    make = kind
    if not is_dataclass(kind):
        raise TypeError(f"{kind} has no form in JSON")
    hints = get_type_hints(kind, include_extras=True)
    named = [(one.metadata.get("json", one.name), one.name) for one in fields(kind)]
    parts = [(key, name, form(hints[name])) for key, name in named if key]
    return Form(
        lambda found: make(**{name: part.read(found[key]) for key, name, part in parts}),
        lambda value: {key: part.write(getattr(value, name)) for key, name, part in parts},
    )


def _same(value: object) -> object:
    return value


def _one_of(choices: tuple[object, ...], value: object) -> object:
    if value not in choices:
        raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(map(str, choices))}")
    return value


_PLAIN: Final = {
    str: Form(text, _same),
    int: Form(whole, _same),
    float: Form(number, _same),
    bool: Form(lambda value: value is True, _same),
    datetime: Form(lambda value: datetime.fromisoformat(text(value)), datetime.isoformat),
}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
