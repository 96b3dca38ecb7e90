"""Converts a file of MirrorMaker 2, SRM or Strimzi to this mirror's YAML.

References to secrets stay references: nothing is resolved.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from replication.config.file import read_bytes
from replication.config.flat import flat_settings
from replication.config.strimzi import CLASS, STORAGE, from_resources, is_resource
from replication.config.to_yaml import FileSettings, to_yaml
from replication.config.values import Raw, text
from replication.errors import ConfigError

_KINDS: Final = (b"kafka.strimzi.io", b"connector.class", b"KafkaMirrorMaker2")


def converted(file: str) -> str:
    """Returns the text of a YAML configuration that means the same as *file*.

    Raises:
        ConfigError: *file* cannot be read, or holds nothing that can be converted.
    """
    content = read_bytes(file)
    try:
        return to_yaml(Path(file).name, _settings(file, content))
    except ValueError as error:
        raise ConfigError(file, [str(error)]) from error


def resources(content: bytes) -> list[Mapping[str, Any]]:
    """Returns the resources of Strimzi or connectors of Kafka Connect in *content*."""
    if not any(kind in content for kind in _KINDS):
        return []
    try:
        documents = list(yaml.safe_load_all(content))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    documents = [one for document in documents for one in _expanded(document)]
    listed = [
        item
        for document in documents
        for item in (document if isinstance(document, list) else [document])
    ]
    return [document for document in listed if is_resource(document)]


def _expanded(document: object) -> Iterable[object]:
    """Returns the connectors of ``GET /connectors?expand=info&expand=status``, or *document*."""
    if not isinstance(document, dict):
        return [document]
    infos = {
        name: entry["info"]
        for name, entry in document.items()
        if isinstance(entry, dict) and is_resource(entry.get("info"))
    }
    states = {
        name: ((document[name].get("status") or {}).get("connector") or {}).get("state")
        for name in infos
    }
    return [{**info, "state": states[name]} for name, info in infos.items()] or [document]


def _settings(file: str, content: bytes) -> FileSettings:
    if found := resources(content):
        try:
            return from_resources(found)
        except (AttributeError, TypeError) as error:
            message = f"is not a valid resource: {error}"
            raise ValueError(message) from error
    flat = flat_settings(content, is_properties=file.endswith(".properties"))
    if flat.problems:
        raise ConfigError(file, flat.problems)
    if CLASS in flat.settings:  # a file of connect-standalone
        return from_resources([{key: text(raw) for key, raw in flat.settings.items()}])
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    comments = {key: _comment_above(lines, line) for key, line in flat.lines.items()}
    return FileSettings(flat.settings, comments, flat.warnings, _positions(flat.settings))


def _positions(values: Mapping[str, Raw]) -> dict[str, str]:
    """Returns for each enabled flow the topic in which MirrorMaker 2 stores its positions."""
    found: dict[str, str] = {}
    for key, raw in values.items():
        flow, _, name = key.rpartition(".")
        source, arrow, target = (part.strip() for part in flow.partition("->"))
        if arrow and name == "enabled" and text(raw).strip().lower() == "true":
            own = values.get(STORAGE) or values.get(f"{target}.{STORAGE}")
            found[f"{source}->{target}"] = text(own) if own else f"mm2-offsets.{source}.internal"
    return found


def _comment_above(lines: list[str], number: int) -> list[str]:
    """Returns the comment that ends in the line above the line *number*, without its signs."""
    found: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith(("#", "!")):
            break
        found.append(line.strip().lstrip("#! "))
    return [line for line in reversed(found) if line]
