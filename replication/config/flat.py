"""A file's content as flat settings: Java's properties or YAML, told apart by the content. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from replication.config.properties import parse_properties
from replication.config.values import Raw

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
        """Counts a pair of YAML that is read, once more for each alias that leads to it.

        Raises:
            ValueError: There are too many.
        """
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
    """Returns the settings of a file.

    Args:
        content: The file's bytes.
        is_properties: Whether the file's name says so; decides if both formats fit.

    Raises:
        ValueError: The content is neither; the text says where and why.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = content.decode("iso-8859-1")
        if not looks_like_properties(text, is_properties=is_properties):
            message = f"byte {error.start}: not UTF-8; save the file as UTF-8"
            raise ValueError(message) from error
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
        message = f"{where}invalid YAML: {error.problem}{hint}"
        raise ValueError(message) from error
    except yaml.YAMLError as error:
        message = f"invalid YAML: {error}"
        raise ValueError(message) from error
    except RecursionError as error:
        message = "nested too deeply; write full keys with dots"
        raise ValueError(message) from error
    message = "must map keys to values, for example clusters: [east, west]"
    raise ValueError(message)


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
