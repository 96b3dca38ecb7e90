"""Reads a configured value as its key requires, and collects problems and notes. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from replication.config.clients.secrets import MASK, is_secret
from replication.config.key import ConfigKey
from replication.mm2.filters import pattern_problem

Raw = str | tuple[str, ...]
"""A value as written; a tuple is a YAML list, whose items may contain commas."""

Value = bool | int | str | tuple[str, ...]


@dataclass(slots=True)
class Diagnostics:
    """Problems and notes of one configuration, each with its key first.

    Args:
        lines: Line of the file for each key, where known.
        hidden: Keys whose values came from a reference (``${env:..}``) and must not be shown.
    """

    lines: Mapping[str, int] = field(default_factory=dict)
    hidden: Collection[str] = ()
    notes: list[str] = field(default_factory=list)
    _problems: dict[str, int] = field(default_factory=dict)

    def problem(self, key: str, text: str) -> None:
        """Adds a problem; a duplicate counts once."""
        line = self.lines.get(key)
        where = f" (line {line})" if line else ""
        self._problems.setdefault(f"{key}: {text}{where}", line or 0)

    def note(self, key: str, text: str) -> None:
        """Adds a note, to be logged once at startup."""
        if (note := f"{key}: {text}") not in self.notes:
            self.notes.append(note)

    def display(self, key: str, value: Raw) -> str:
        """*value* as it may appear in a message."""
        return MASK if key in self.hidden or is_secret(key) else repr(text(value))

    @property
    def problems(self) -> list[str]:
        """All problems in the order of the file; those without a line first."""
        return sorted(self._problems, key=lambda problem: self._problems[problem])


class InvalidValueError(ValueError):
    """A value is invalid for its key. The text says what to write; it may quote a list's items."""


def text(raw: Raw) -> str:
    """*raw* as it would be written in a .properties file."""
    return raw if isinstance(raw, str) else ",".join(raw)


def items(raw: Raw) -> tuple[str, ...]:
    """*raw* as a list of distinct, stripped, non-empty items; a string is split at commas."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(dict.fromkeys(item.strip() for item in parts if item.strip()))


def read(key: ConfigKey, raw: Raw) -> Value:
    """*raw* converted to the kind of *key*.

    Raises:
        InvalidValueError: *raw* is invalid for *key*.
    """
    match key.kind:
        case "flag":
            return _flag(text(raw).strip().lower())
        case "number":
            return _number(key, text(raw).strip())
        case "choice" | "class":
            return _choice(key, text(raw).strip())
        case "names" | "choices" | "patterns":
            return _items(key, items(raw))
        case "text":
            return text(raw)


def closest(name: str, known: Collection[str], at_least: float = 0.7) -> str | None:
    """The name in *known* most similar to *name*, if it is similar enough (1.0 is equal)."""
    return next(iter(get_close_matches(name, known, 1, at_least)), None)


def one_of(choices: Sequence[str]) -> str:
    """*choices* as a phrase: ``a, b or c``."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise InvalidValueError("write true or false")
    return value == "true"


def _number(key: ConfigKey, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise InvalidValueError(f"write a whole number, for example {key.default}") from None
    if number < key.least or (key.least == -1 and number == 0):
        if key.least < 0:
            raise InvalidValueError("write 1 or more, or -1 for the cluster's default")
        raise InvalidValueError(f"write {key.least} or more")
    return number


def _choice(key: ConfigKey, value: str) -> str:
    if value not in key.choices:
        raise InvalidValueError(f"write {one_of(key.choices)}")
    return value


def _items(key: ConfigKey, values: tuple[str, ...]) -> tuple[str, ...]:
    if key.kind == "choices" and not set(values) <= set(key.choices):
        raise InvalidValueError(f"the items must be {one_of(key.choices)}")
    problems = [pattern_problem(item) for item in values] if key.kind == "patterns" else []
    if found := [problem for problem in problems if problem]:
        raise InvalidValueError("; ".join(found))
    return values
