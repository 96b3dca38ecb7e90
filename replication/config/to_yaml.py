"""Writes flat settings of MirrorMaker 2 or SRM as this mirror's YAML, with comments. Pure.

The YAML means the same as the settings. What has no effect becomes a comment with the reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from replication.config.clients.secrets import MASK, is_secret
from replication.config.field_keys import scope_of, translate
from replication.config.keys import KEYS
from replication.config.scopes import sort_settings
from replication.config.values import Diagnostics, Raw, items, text
from replication.errors import printable
from replication.mm2.single_message_transforms import belongs

_PLAIN: Final = re.compile(r"-?[0-9]{1,18}|true|false")
_LISTS: Final = ("patterns", "names", "choices")


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Settings to be written, and what belongs above each of them.

    Args:
        values: Full key -> value.
        comments: Full key -> lines to be written above it, without ``#``.
        remarks: Lines for the head of the file.
        positions: Flow -> the topic on its target in which MirrorMaker 2 stored its positions.
    """

    values: Mapping[str, Raw]
    comments: Mapping[str, list[str]] = field(default_factory=dict)
    remarks: Iterable[str] = ()
    positions: Mapping[str, str] = field(default_factory=dict)


def to_yaml(origin: str, settings: FileSettings) -> str:
    """Returns the text of a configuration file.

    Args:
        origin: The name of the file that is converted.
        settings: What it says.
    """
    referring = {key for key, raw in settings.values.items() if "${" in text(raw)}
    found = Diagnostics(unresolved=referring)  # such a value is known when the file is read
    sort_settings(found, settings.values)
    unused = found.without_effect
    keys = translate(Diagnostics(), settings.values)
    aliases = items(settings.values.get("clusters", ""))
    written = {new: old for old, new in _written(settings.values, keys, found).items()}
    kept = {key: raw for key, raw in keys.items() if written.get(key, key) not in unused}
    lines = [f"# Converted from {printable(origin)} by python -m replication import."]
    lines.append("# How to go on where MirrorMaker 2 stopped: conf/docs/take-over.md.")
    lines += [f"# {printable(remark)}" for remark in settings.remarks]
    lines += [f"# To do: {problem}" for problem in found.problems]
    lines += [f"# {warning}" for warning in _of_chains(found, aliases)]
    for scope in _scopes(kept, aliases):
        lines.append("")
        if scope:
            lines.append(f"{_scalar(scope.removesuffix('.'))}:")
        for key, raw in kept.items():
            if _normal(scope_of(key, aliases)) != scope:
                continue
            indent, name = "  " if scope else "", key[len(scope_of(key, aliases)) :]
            old = written.get(key, key)
            lines += [f"{indent}# {printable(line)}" for line in settings.comments.get(old, ())]
            lines.append(f"{indent}{setting_line(name, raw)}")
        lines += _take_over(settings.positions.get(scope.removesuffix(".")))
    if unused:
        lines += ["", "# Without effect here:"]
        lines += [
            f"#   {printable(key)}: {_shown(key, settings.values[key])}   ({reason})"
            for key, reason in unused.items()
            if key in settings.values
        ]
    return "\n".join(lines) + "\n"


def setting_line(name: str, raw: Raw) -> str:
    """Returns the line of YAML that sets the key *name*."""
    return f"{_scalar(name)}: {_value(name, raw)}"


def _of_chains(found: Diagnostics, aliases: tuple[str, ...]) -> Iterator[str]:
    """Yields how copies differ from MirrorMaker 2's by a chain, whose own keys are gone."""
    for warning in found.warnings:
        key = warning.partition(": ")[0]
        if key not in found.without_effect and belongs(key.removeprefix(scope_of(key, aliases))):
            yield warning


def _take_over(topic: str | None) -> Iterator[str]:
    """Yields how a flow would go on where MirrorMaker 2 stopped; a comment, for one start only."""
    if topic:
        yield "  # For the first start, if the remote topics do not show where MirrorMaker 2 ended:"
        yield f"  # replication.takeover.topic: {_scalar(topic)}"


def _shown(key: str, raw: Raw) -> str:
    return MASK if is_secret(key) else printable(text(raw))


def _written(
    values: Mapping[str, Raw], keys: Mapping[str, Raw], found: Diagnostics
) -> dict[str, str]:
    """Returns the key of the file -> the key that is written, where they differ."""
    return {old: new for new, old in found.written.items() if old in values and new in keys}


def _scopes(keys: Iterable[str], aliases: tuple[str, ...]) -> Iterator[str]:
    """Yields the scopes of *keys*: the file, then each cluster, then each flow."""
    scopes = {_normal(scope_of(key, aliases)) for key in keys}
    yield from sorted(scopes, key=lambda scope: ("->" in scope, scope))


def _normal(scope: str) -> str:
    return "->".join(part.strip() for part in scope.split("->"))


def _value(name: str, raw: Raw) -> str:
    if name in KEYS and KEYS[name].kind in _LISTS:
        return f"[{', '.join(map(_quoted, items(raw)))}]"
    return _scalar(text(raw).strip() if name in KEYS else text(raw))


def _quoted(value: str) -> str:
    """Returns an item of a list: plain if it is a word that YAML takes for no boolean or null."""
    is_word = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value)
    return _scalar(value, style=None if is_word else "'")


def _scalar(value: str, style: str | None = None) -> str:
    """Returns *value* as YAML on one line."""
    if _PLAIN.fullmatch(value):
        return value
    is_odd = not value.isprintable()
    dumped = yaml.safe_dump(
        value, default_style='"' if is_odd else style, width=2**31, allow_unicode=not is_odd
    )
    return str(dumped).removesuffix("\n").removesuffix("\n...")
