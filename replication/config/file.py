"""Reads a configuration file, YAML or ``.properties``, and resolves its references to secrets.

Returns the checked configuration or raises one ConfigError. A resolved value is never shown.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from replication.config.home import home
from replication.config.parse import parse
from replication.config.properties import parse_properties
from replication.config.references import Resolver
from replication.config.tree import MirrorConfig
from replication.config.values import Raw
from replication.errors import ConfigError

_BOOLEANS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(slots=True)
class _FlatSettings:
    """Settings with full keys, and the line of each key."""

    settings: dict[str, Raw] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, key: str, value: Raw, line: int) -> None:
        if key in self.settings:
            self.problems.append(
                f"{key}: set twice, on lines {self.lines[key]} and {line}; remove one"
            )
        self.settings[key] = value
        self.lines[key] = line


def load_config(file: str) -> MirrorConfig:
    """The configuration in *file*, read with this process's environment.

    Raises:
        ConfigError: As `load`.
    """
    state_dir = (home() / "state").absolute().as_uri()
    return load(file, environ=os.environ, default_state_dir=state_dir)


def load(path: str | Path, *, environ: Mapping[str, str], default_state_dir: str) -> MirrorConfig:
    """The configuration in the file *path*.

    A file whose name ends in ``.properties`` is read in Java's format, any other file as YAML.

    Args:
        path: The file; messages show the path as given.
        environ: The variables that ``${env:NAME}`` refers to.
        default_state_dir: The state directory if the file does not set ``state.dir``.

    Raises:
        ConfigError: The file cannot be read or has problems; the error lists all of them.
    """
    file = str(path)
    content = _read(file)
    flat = (
        _read_properties(file, content)
        if file.endswith(".properties")
        else _read_yaml(file, content)
    )
    resolver = Resolver(flat.settings, environ)
    settings = {key: resolver.resolve(key, raw) for key, raw in flat.settings.items()}
    if problems := [*flat.problems, *resolver.problems]:
        raise ConfigError(file, [*problems, *_other_problems(file, settings, flat, resolver)])
    return parse(
        file,
        settings,
        default_state_dir=default_state_dir,
        lines=flat.lines,
        hidden=resolver.resolved_keys,
    )


def _other_problems(
    file: str, settings: Mapping[str, Raw], flat: _FlatSettings, resolver: Resolver
) -> list[str]:
    """The problems `parse` finds besides unresolved references, so that all come at once."""
    unresolved = {problem.partition(": ")[0] for problem in resolver.problems}
    try:
        parse(
            file,
            settings,
            default_state_dir="/",
            lines=flat.lines,
            hidden=resolver.resolved_keys,
        )
    except ConfigError as error:
        return [text for text in error.problems if text.partition(": ")[0] not in unresolved]
    return []


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            file, [f"byte {error.start}: not UTF-8; save the file as UTF-8"]
        ) from error
    except FileNotFoundError as error:
        raise ConfigError(file, ["no such file; check the path after --config"]) from error
    except OSError as error:
        raise ConfigError(
            file, [f"cannot be read ({error.strerror}); name a file that this user can read"]
        ) from error


def _read_properties(file: str, content: str) -> _FlatSettings:
    flat = _FlatSettings()
    try:
        for key, value, line in parse_properties(content):
            flat.add(key, value, line)
    except ValueError as error:
        raise ConfigError(file, [str(error)]) from error
    return flat


def _read_yaml(file: str, content: str) -> _FlatSettings:
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        raise ConfigError(file, [f"{where}invalid YAML: {error.problem}{hint}"]) from error
    except yaml.YAMLError as error:
        raise ConfigError(file, [f"invalid YAML: {error}"]) from error
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(file, ["must map keys to values, for example clusters: [east, west]"])
    flat = _FlatSettings()
    _flatten(node, "", flat, ())
    return flat


def _flatten(
    node: yaml.MappingNode, prefix: str, flat: _FlatSettings, above: tuple[int, ...]
) -> None:
    for key_node, value in _pairs(node, flat):
        key, line = f"{prefix}{key_node.value}", key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            flat.problems.append(f"line {line}: a key must be a plain string")
        elif id(value) in above:
            flat.problems.append(f"{key}: refers to itself (line {line}); remove the alias")
        elif isinstance(value, yaml.MappingNode):
            _flatten(value, f"{key}.", flat, (*above, id(value)))
        elif isinstance(value, yaml.ScalarNode):
            flat.add(key, _scalar_text(value), line)
        elif all(isinstance(item, yaml.ScalarNode) for item in value.value):
            flat.add(key, tuple(_scalar_text(item) for item in value.value), line)
        else:
            flat.problems.append(f"{key}: list items must be plain values (line {line})")


def _pairs(node: yaml.MappingNode, flat: _FlatSettings) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The pairs of a mapping; a pair merged in by ``<<`` only if the mapping lacks its key."""
    own = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    for key, value in node.value:
        if key.tag != f"{_TAG}merge":
            yield key, value
            continue
        merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                flat.problems.append(f"line {key.start_mark.line + 1}: << must refer to a mapping")
                continue
            for pair in _pairs(source, flat):
                if pair[0].value not in own:
                    own.add(pair[0].value)
                    yield pair


def _scalar_text(node: yaml.ScalarNode) -> str:
    """The text as written, with one spelling each for YAML's true, false and null."""
    value: str = node.value
    if node.tag == f"{_TAG}bool":
        return _BOOLEANS.get(value.lower(), value.lower())
    return "" if node.tag == f"{_TAG}null" else value
