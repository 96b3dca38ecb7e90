"""A file's content as flat settings: Java's properties or YAML, told apart by the content. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import yaml

from replication.config.values import MissingRaw, MissingValueError, Raw, items, text

# Reads Java's ``.properties`` format by the grammar of ``java.util.Properties``.

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


MOST_SETTINGS: Final = 20_000
"""More than any file needs; aliases of YAML can refer to each other to make billions."""

MOST_PAIRS: Final = 10 * MOST_SETTINGS
"""How many pairs of YAML may be read for them: aliases can repeat mappings without a setting."""

_BOOLEANS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_TAG: Final = "tag:yaml.org,2002:"
_PROPERTY: Final = re.compile(r"^[^\s#!:={\[][^:=\n]*=", re.MULTILINE)
_PAIR: Final = re.compile(
    r"""^(?:[^\s#!:="'{\[][^:=\n]*|"[^"\n]*"|'[^'\n]*'):(?:\s|$)""", re.MULTILINE
)
_ONLY_YAML: Final = re.compile(
    r"^(?:---|[{]|[ ]+[^\s#][^=\n]*:(?:\s|$)|[^\s#!=][^=\n]*:[ \t]*[\[{])", re.MULTILINE
)


@dataclass(slots=True)
class FlatSettings:
    """Settings with full keys, and the line of each key."""

    settings: dict[str, Raw] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pairs_read: int = 0

    def count_pair(self) -> None:
        """Counts a pair of YAML that is read, once more for each alias that leads to it."""
        self.pairs_read += 1
        if self.pairs_read > MOST_PAIRS:
            raise ValueError(f"more than {MOST_PAIRS} pairs; remove aliases that nest")

    def add(self, key: str, value: Raw, line: int) -> None:
        """Adds one setting.

        Raises:
            ValueError: There are too many.
        """
        if len(self.settings) >= MOST_SETTINGS:
            raise ValueError(f"more than {MOST_SETTINGS} settings; remove aliases that nest")
        self.settings[key] = value
        self.lines[key] = line


def flat_settings(content: bytes, *, is_properties: bool) -> FlatSettings:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = content.decode("iso-8859-1")
        if not looks_like_properties(text, is_properties=is_properties):
            raise ValueError(f"byte {error.start}: not UTF-8; save the file as UTF-8") from error
    if looks_like_properties(text, is_properties=is_properties):
        return _read_properties(text)
    return _read_yaml(text)


def looks_like_properties(text: str, *, is_properties: bool) -> bool:
    """Returns whether *text* has Java's format: ``key=value`` lines, and nothing only YAML has."""
    has_properties, has_pairs = _PROPERTY.search(text), _PAIR.search(text)
    if has_properties and not has_pairs:
        return True
    if has_pairs and not has_properties:
        return is_properties and not _ONLY_YAML.search(text)
    return is_properties


def _read_properties(text: str) -> FlatSettings:
    flat = FlatSettings()
    for key, value, line in parse_properties(text):
        if key in flat.settings:
            flat.warnings.append(
                f"{key}: set twice, on lines {flat.lines[key]} and {line}; the last one counts, as "
                "in Java"
            )
        flat.add(key, value, line)
    return flat


def _read_yaml(text: str) -> FlatSettings:
    flat = FlatSettings()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if isinstance(node, yaml.MappingNode):
            _flatten(node, "", flat, ())
            return flat
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        raise ValueError(f"{where}invalid YAML: {error.problem}{hint}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML: {error}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply; write full keys with dots") from error
    raise ValueError("must map keys to values, for example clusters: [east, west]")


def _flatten(
    node: yaml.MappingNode, prefix: str, flat: FlatSettings, above: tuple[int, ...]
) -> None:
    above = (*above, id(node))
    for key_node, value in _pairs(node, flat, above):
        key, line = f"{prefix}{key_node.value}", key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            flat.problems.append(f"line {line}: a key must be a plain string")
        elif id(value) in above:
            flat.problems.append(f"{key}: refers to itself (line {line}); remove the alias")
        elif isinstance(value, yaml.MappingNode):
            _flatten(value, f"{key}.", flat, above)
        elif isinstance(value, yaml.ScalarNode):
            _add(flat, key, _scalar_text(value), line)
        elif all(isinstance(item, yaml.ScalarNode) for item in value.value):
            _add(flat, key, tuple(_scalar_text(item) for item in value.value), line)
        else:
            flat.problems.append(f"{key}: list items must be plain values (line {line})")


def _add(flat: FlatSettings, key: str, value: Raw, line: int) -> None:
    if key in flat.settings:
        flat.problems.append(f"{key}: set twice, on lines {flat.lines[key]} and {line}; remove one")
    flat.add(key, value, line)


def _pairs(
    node: yaml.MappingNode, flat: FlatSettings, above: tuple[int, ...]
) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yields a mapping's pairs; a pair merged in by ``<<`` only if the mapping lacks its key."""
    own = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    for key, value in node.value:
        flat.count_pair()
        if key.tag != f"{_TAG}merge":
            yield key, value
            continue
        line = key.start_mark.line + 1
        merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                flat.problems.append(f"line {line}: << must refer to a mapping")
                continue
            if id(source) in above:
                flat.problems.append(f"line {line}: << refers to itself; remove the alias")
                continue
            for merged_key, merged_value in _pairs(source, flat, (*above, id(source))):
                if not isinstance(merged_key, yaml.ScalarNode):  # reported by the caller
                    yield merged_key, merged_value
                elif merged_key.value not in own:
                    own.add(merged_key.value)
                    yield merged_key, merged_value


def _scalar_text(node: yaml.ScalarNode) -> str:
    """Returns the text as written, with one spelling each for YAML's true, false and null."""
    value: str = node.value
    if node.tag == f"{_TAG}bool":
        return _BOOLEANS.get(value.lower(), value.lower())
    return "" if node.tag == f"{_TAG}null" else value


# Resolves references in values: ``${env:NAME}``, ``${file:/path}``, ``${file:/path:key}``.
#
# Providers that a file declares with ``config.providers`` work as in MirrorMaker 2.
#
# A value whose reference leads nowhere is `MissingRaw`, and an error where it is used.

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
    try:
        return Path(path).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a null character, or links in a circle
        raise UnresolvedError("is not a path; name a file") from error


def _read_file(path: Path) -> str:
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
