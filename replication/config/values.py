"""Reads one configured value as its key demands, and collects what is wrong. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from replication.config.clients.secrets import MASK, is_secret
from replication.config.keys import Key
from replication.mm2.filters import pattern_problem

Raw = str | tuple[str, ...]
"""A value as written; a tuple is a list whose items may hold commas (YAML)."""

Value = bool | int | str | tuple[str, ...]


@dataclass(slots=True)
class Diagnostics:
    """Problems and notes of one configuration, each led by its key.

    Args:
        lines: Line of the file for each key, where known.
        hidden: Keys whose values came from a reference (``${env:..}``) and are not to be shown.
    """

    lines: Mapping[str, int] = field(default_factory=dict)
    hidden: Collection[str] = ()
    notes: list[str] = field(default_factory=list)
    _problems: dict[str, int] = field(default_factory=dict)

    def problem(self, key: str, text: str) -> None:
        """Adds a problem; the same one twice counts once."""
        line = self.lines.get(key)
        where = f" (line {line})" if line else ""
        self._problems.setdefault(f"{key}: {text}{where}", line or 0)

    def note(self, key: str, text: str) -> None:
        """Adds a note, said once at start."""
        if (note := f"{key}: {text}") not in self.notes:
            self.notes.append(note)

    def shown(self, key: str, value: Raw) -> str:
        """*value* fit for a message."""
        return MASK if key in self.hidden or is_secret(key) else repr(text(value))

    @property
    def problems(self) -> list[str]:
        """All problems in the order of the file; those of no line first."""
        return sorted(self._problems, key=lambda problem: self._problems[problem])


class ValueMisfitError(ValueError):
    """A value does not fit its key. Says what to write instead, never the value itself."""


def text(raw: Raw) -> str:
    """*raw* as one line of a .properties file would hold it."""
    return raw if isinstance(raw, str) else ",".join(raw)


def items(raw: Raw) -> tuple[str, ...]:
    """*raw* as a list without blanks, empty items and repetitions; a string splits on commas."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(dict.fromkeys(item.strip() for item in parts if item.strip()))


def read(key: Key, raw: Raw) -> Value:
    """The value *raw* means for *key*.

    Raises:
        ValueMisfitError: It means none.
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
    """The known name most like *name*, if one is alike enough (1.0 is equal)."""
    return next(iter(get_close_matches(name, known, 1, at_least)), None)


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueMisfitError("write true or false")
    return value == "true"


def _number(key: Key, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise ValueMisfitError(f"write a whole number, such as {key.default}") from None
    if number < key.least or (key.least == -1 and number == 0):
        least = (
            "1 or more, or -1 for the cluster's default"
            if key.least < 0
            else (f"{key.least} or more")
        )
        raise ValueMisfitError(f"write {least}")
    return number


def _choice(key: Key, value: str) -> str:
    if value not in key.choices:
        raise ValueMisfitError(f"write {' or '.join(key.choices)}")
    return value


def _items(key: Key, values: tuple[str, ...]) -> tuple[str, ...]:
    if key.kind == "choices" and not set(values) <= set(key.choices):
        raise ValueMisfitError(f"write items of {', '.join(key.choices)}")
    problems = [pattern_problem(item) for item in values] if key.kind == "patterns" else []
    if found := [problem for problem in problems if problem]:
        raise ValueMisfitError("; ".join(found))
    return values
