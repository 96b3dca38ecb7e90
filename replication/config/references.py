"""Resolves references in values: ``${env:NAME}``, ``${file:/path}``, ``${file:/path:key}``.

Providers that a file declares with ``config.providers`` work as in MirrorMaker 2.

A value whose reference leads nowhere is `MissingRaw`, and an error where it is used.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from replication.config.properties import parse_properties
from replication.config.values import MissingRaw, MissingValueError, Raw, items, text

Provider = Literal["env", "file", "directory"]

_OPENED: Final = "${"
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_CLASSES: Final[dict[str, Provider]] = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
}


class UnresolvedError(ValueError):
    """A reference cannot be resolved. The text names the reference, never a value."""


class Resolver:
    """Replaces references with their values and remembers which keys contained any.

    ``unresolved`` says of each key that contains one which leads nowhere what is wrong.

    Args:
        file: The file's name, for messages.
        settings: All settings; ``config.providers`` is read from them.
        environ: The environment variables.
    """

    def __init__(self, file: str, settings: Mapping[str, Raw], environ: Mapping[str, str]) -> None:
        self._file = file
        self._environ = environ
        self.unresolved: dict[str, list[str]] = {}
        self.resolved_keys: set[str] = set()
        self._settings = settings
        self._providers: dict[str, Provider] = {"env": "env", "file": "file"}
        for name in items(settings.get("config.providers", "")):
            key = f"config.providers.{name}.class"
            provider = _CLASSES.get(text(settings.get(key, "")).rpartition(".")[2])
            if provider is None:
                self._problem(
                    key,
                    "unsupported provider; use FileConfigProvider, EnvVarConfigProvider or "
                    "DirectoryConfigProvider from org.apache.kafka.common.config.provider",
                )
            else:
                self._providers[name] = provider

    def resolve(self, key: str, raw: Raw) -> Raw:
        """Replaces the references in *raw*; an unresolved one makes it `MissingRaw`."""
        found: Raw
        if isinstance(raw, tuple):
            found = tuple(self._resolve_text(key, item) for item in raw)
        else:
            found = self._resolve_text(key, raw)
        if key in self.unresolved:
            return MissingRaw(text(found), MissingValueError(self._file, self.unresolved[key][0]))
        return found

    def _resolve_text(self, key: str, value: str) -> str:
        def replace(reference: re.Match[str]) -> str:
            self.resolved_keys.add(key)
            try:
                return self._value(reference[1], reference[2] or "", reference[3])
            except UnresolvedError as error:
                self._problem(key, f"{reference[0]} {error}")
                return reference[0]

        if _OPENED in _REFERENCE.sub("", value):
            self._problem(
                key,
                "contains a reference without a provider or without its end; write ${env:NAME} or "
                "${file:/path:key}, or, for a value with these characters, put it into a file and "
                "write ${file:/path}",
            )
            return value
        return _REFERENCE.sub(replace, value)

    def _problem(self, key: str, text: str) -> None:
        self.unresolved.setdefault(key, []).append(f"{key}: {text}")

    def _value(self, name: str, path: str, last: str) -> str:
        provider = self._providers.get(name)
        self._check_allowed(name, provider, path or last)
        match provider:
            case "env":
                if last not in self._environ:
                    raise UnresolvedError(f"is not set; export {last} before starting")
                return self._environ[last]
            case "file" if path:
                return _read_property(Path(path), last)
            case "file":
                return _read_file(Path(last))
            case "directory":
                return _read_file(Path(path) / last)
            case _:
                known = ", ".join(self._providers)
                raise UnresolvedError(f"names an unknown provider; use one of {known}")

    def _check_allowed(self, name: str, provider: Provider | None, wanted: str) -> None:
        """Raises an error if a restriction of the provider forbids *wanted*, a path or a name."""
        prefix = f"config.providers.{name}.param"
        pattern = text(self._settings.get(f"{prefix}.allowlist.pattern", ""))
        if provider == "env" and pattern and not _matches(pattern, wanted, prefix):
            raise UnresolvedError(f"is not allowed by {prefix}.allowlist.pattern={pattern}")
        allowed = items(self._settings.get(f"{prefix}.allowed.paths", ""))
        if provider in ("file", "directory") and allowed:
            path = _resolved(wanted)
            if not any(path.is_relative_to(_resolved(folder)) for folder in allowed):
                raise UnresolvedError(f"is outside of {prefix}.allowed.paths")


def _matches(pattern: str, name: str, prefix: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise UnresolvedError(
            f"cannot be checked: {prefix}.allowlist.pattern={pattern} is not a regular expression, "
            f"{error}; correct it"
        ) from error


def _resolved(path: str) -> Path:
    """Returns the absolute path without symbolic links."""
    try:
        return Path(path).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a null character, or links in a circle
        raise UnresolvedError("is not a path; name a file") from error


def _read_file(path: Path) -> str:
    """Reads the file's text without the final line break that editors add."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UnresolvedError("is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise UnresolvedError(
            f"cannot be read ({error.strerror}); name a file that this user can read"
        ) from error
    except ValueError as error:  # a null character
        raise UnresolvedError("is not a path; name a file") from error


def _read_property(path: Path, key: str) -> str:
    try:
        values = {name: value for name, value, _ in parse_properties(_read_file(path))}
    except UnresolvedError:
        raise
    except ValueError as error:
        raise UnresolvedError(f"is not a .properties file: {error}") from error
    if key not in values:
        raise UnresolvedError(f"has no such key; add {key}= to the file")
    return values[key]
