"""Reads a configured value as its key requires, and collects problems and notes. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NoReturn

from replication.config.client_keys import MASK, is_secret
from replication.config.config_key import ConfigKey
from replication.errors import ConfigError, printable
from replication.mm2.filters import COMMENT, impossible, pattern_problem

_CLASS_NAME: Final = re.compile(r"([A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*")

Raw = str | tuple[str, ...]
"""A value as written; a tuple is a YAML list, whose items may contain commas."""


class MissingValueError(ConfigError):
    """A value is needed whose reference leads nowhere, such as a variable that is not set."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, [problem])
        self.args = (printable(f"{file}: {problem}"),)


class MissingRaw(str):
    """A raw value with a reference that leads nowhere, as written."""

    __slots__ = ("error",)
    error: MissingValueError

    def __new__(cls, written: str, error: MissingValueError) -> "MissingRaw":  # noqa: PYI034 - Self is of 3.11
        missing = super().__new__(cls, written)
        missing.error = error
        return missing


class MissingValue:
    """Takes the place of a configured value that is `MissingRaw`: any use raises its error.

    So a command needs only those references that it uses.
    """

    __slots__ = ("_error",)

    def __init__(self, error: MissingValueError) -> None:
        self._error = error

    def _use(self, *_: object) -> NoReturn:
        raise self._error

    __getattr__ = __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _use
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _use
    __str__ = __format__ = __fspath__ = __int__ = __float__ = __index__ = __call__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _use
    __or__ = __ror__ = __and__ = __rand__ = __neg__ = _use

    def __repr__(self) -> str:
        return "<not known>"


def known(raw: Raw) -> Raw:
    """Returns *raw*.

    Raises:
        MissingValueError: It has a reference that leads nowhere.
    """
    if isinstance(raw, MissingRaw):
        raise raw.error
    return raw


LONGEST_SHOWN: Final = 300
"""How much of a value a message shows, in characters."""

Value = bool | int | str | tuple[str, ...]


@dataclass(slots=True)
class Diagnostics:
    """Problems, warnings and notes of one configuration, each with its key first.

    Args:
        lines: Line of the file for each key, where known.
        hidden: Keys whose values came from a reference (``${env:..}``) and must not be shown.
        written: Key -> the key that the file has in its place, where they differ.
        has_classes: Whether a class of the user's may read keys that only it knows.
        unresolved: Keys of the file whose values are not known, so that nothing is wrong with them.
        without_effect: Key of the file -> why it has no effect.
    """

    lines: Mapping[str, int] = field(default_factory=dict)
    hidden: Collection[str] = ()
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    has_classes: bool = False
    unresolved: Collection[str] = ()
    without_effect: dict[str, str] = field(default_factory=dict)
    _problems: dict[str, int] = field(default_factory=dict)

    def problem(self, key: str, text: str) -> None:
        """Adds a problem; a duplicate counts once."""
        if (written := self.written.get(key, key)) not in self.unresolved:
            self._problems.setdefault(self._message(key, text), self.lines.get(written, 0))

    def warning(self, key: str, text: str) -> None:
        """Adds a warning: the file runs, but may not mean what its author thinks."""
        if (message := self._message(key, text)) not in self.warnings:
            self.warnings.append(message)

    def note(self, key: str, text: str) -> None:
        """Adds a note: what is as it should be, but worth knowing."""
        if (note := printable(f"{self.written.get(key, key)}: {text}")) not in self.notes:
            self.notes.append(note)

    def unused(self, key: str, reason: str, *, warns: bool = False) -> None:
        """Notes that *key* has no effect, or *warns*: its author may expect one."""
        self.without_effect[self.written.get(key, key)] = printable(reason)
        (self.warning if warns else self.note)(key, reason)

    def _message(self, key: str, text: str) -> str:
        written = self.written.get(key, key)
        line = self.lines.get(written)
        return printable(f"{written}: {text} (line {line})" if line else f"{written}: {text}")

    def display(self, key: str, value: Raw) -> str:
        """Returns *value* as it may appear in a message."""
        is_hidden = self.written.get(key, key) in self.hidden or is_secret(key)
        if is_hidden:
            return MASK
        shown = text(value)
        return repr(shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..")

    @property
    def problems(self) -> list[str]:
        """All problems in the order of the file; those without a line first."""
        return sorted(self._problems, key=lambda problem: self._problems[problem])


class InvalidValueError(ValueError):
    """A value is invalid for its key. The text says what to write; it may quote a list's items."""


def text(raw: Raw) -> str:
    """Returns *raw* as it would be written in a .properties file."""
    return raw if isinstance(raw, str) else ",".join(raw)


def items(raw: Raw) -> tuple[str, ...]:
    """Splits *raw* into distinct, stripped, non-empty items; a string is split at commas."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(dict.fromkeys(item.strip() for item in parts if item.strip()))


def read(key: ConfigKey, raw: Raw) -> Value:
    """Converts *raw* to the kind of *key*.

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
            return _text(text(raw))
        case "java class":
            return _java_class(key, text(raw).strip())


def closest(name: str, known: Collection[str], at_least: float = 0.7) -> str | None:
    """Returns the name in *known* closest to *name*, if it is similar enough (1.0 is equal)."""
    return next(iter(get_close_matches(name, known, 1, at_least)), None)


def one_of(choices: Sequence[str]) -> str:
    """Returns *choices* as a phrase: ``a, b or c``."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise InvalidValueError("write true or false")
    return value == "true"


def _number(key: ConfigKey, value: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise InvalidValueError(f"write a whole number, for example {key.default or key.least}")
    number = int(value)
    if number > key.most:
        raise InvalidValueError(f"write {key.most} or less")
    if number < key.least or (key.least == -1 and number == 0):
        if key.least < 0:
            raise InvalidValueError("write 1 or more, or -1 for the cluster's default")
        raise InvalidValueError(f"write {key.least} or more")
    return number


def _choice(key: ConfigKey, value: str) -> str:
    if value not in key.choices:
        raise InvalidValueError(f"write {one_of(key.choices)}")
    return value


def _java_class(key: ConfigKey, value: str) -> str:
    if value not in key.choices and not _CLASS_NAME.fullmatch(value):
        known = one_of([choice for choice in key.choices if "." not in choice])
        raise InvalidValueError(f"write {known}, or the full name of a Java class of your own")
    return value


def _items(key: ConfigKey, values: tuple[str, ...]) -> tuple[str, ...]:
    if key.kind == "choices" and not set(values) <= set(key.choices):
        raise InvalidValueError(f"the items must be {one_of(key.choices)}")
    problems = [pattern_problem(item) for item in values] if key.kind == "patterns" else []
    if key.kind == "patterns" and not any(problems):
        is_of_groups = key.name.startswith("groups")
        problems = [impossible(item, is_of_groups=is_of_groups) for item in values]
    if found := [problem for problem in problems if problem]:
        raise InvalidValueError("; ".join(found))
    return values


def _text(value: str) -> str:
    if COMMENT.search(value):
        raise InvalidValueError("a comment behind a value is a part of it; put it in another line")
    return value
