"""Resolves references in values: ``${env:NAME}``, ``${file:/path}``, ``${file:/path:key}``.

Providers that a file declares with ``config.providers``, as MirrorMaker 2 has them, work too.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from replication.config.properties import parse_properties
from replication.config.values import Raw, items, text

Provider = Literal["env", "file", "directory"]

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_CLASSES: Final[dict[str, Provider]] = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
}


class UnresolvedError(ValueError):
    """A reference leads nowhere. Names the reference, never a value."""


class Resolver:
    """Replaces references by what they refer to, and remembers which keys held some.

    Args:
        settings: All settings, for ``config.providers``.
        environ: The environment.
    """

    def __init__(self, settings: Mapping[str, Raw], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[str] = []
        self.resolved: set[str] = set()
        self._providers: dict[str, Provider] = {"env": "env", "file": "file"}
        for name in items(settings.get("config.providers", "")):
            key = f"config.providers.{name}.class"
            known = _CLASSES.get(text(settings.get(key, "")).rpartition(".")[2])
            if known is None:
                self.problems.append(
                    f"{key}: not a provider this program has; write FileConfigProvider, "
                    "EnvVarConfigProvider or DirectoryConfigProvider of "
                    "org.apache.kafka.common.config.provider"
                )
            else:
                self._providers[name] = known

    def resolve(self, key: str, raw: Raw) -> Raw:
        """*raw* without references; one that leads nowhere stays and becomes a problem."""
        if isinstance(raw, tuple):
            return tuple(self._resolved(key, item) for item in raw)
        return self._resolved(key, raw)

    def _resolved(self, key: str, value: str) -> str:
        def replaced(reference: re.Match[str]) -> str:
            self.resolved.add(key)
            try:
                return self._value(reference[1], reference[2] or "", reference[3])
            except UnresolvedError as error:
                self.problems.append(f"{key}: {reference[0]} {error}")
                return reference[0]

        return _REFERENCE.sub(replaced, value)

    def _value(self, name: str, path: str, last: str) -> str:
        match self._providers.get(name):
            case "env":
                if last not in self._environ:
                    raise UnresolvedError(f"is not set; export {last} before the start")
                return self._environ[last]
            case "file" if path:
                return _property(Path(path), last)
            case "file":
                return _whole(Path(last))
            case "directory":
                return _whole(Path(path) / last)
            case _:
                known = ", ".join(self._providers)
                raise UnresolvedError(f"names no provider; write one of {known}")


def _whole(path: Path) -> str:
    """The file's text without the line end that editors put there."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UnresolvedError("is not UTF-8; save the file in that encoding") from error
    except OSError as error:
        raise UnresolvedError(
            f"cannot be read ({error.strerror}); give a file this user may read"
        ) from error


def _property(path: Path, key: str) -> str:
    try:
        values = {name: value for name, value, _ in parse_properties(_whole(path))}
    except UnresolvedError:
        raise
    except ValueError as error:
        raise UnresolvedError(f"is no .properties file, {error}") from error
    if key not in values:
        raise UnresolvedError(f"has no such key; add {key}= to the file")
    return values[key]
