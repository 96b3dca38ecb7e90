"""Which topic settings a remote topic gets, and what the target would not keep. Pure.

The rules for copying are MirrorMaker 2's: settings of the source's ``server.properties``, read-only
and sensitive ones stay behind, as do those that ``config.properties.exclude`` names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf

from replication.config.tree import TopicConfigsConfig
from replication.mm2.filters import NameFilter
from replication.model import NewTopic, TopicSetting

Settings = Mapping[str, TopicSetting]
"""All settings of one topic by Kafka's names: ``retention.ms``."""

SIZE_KEY = "max.message.bytes"
# Not message.timestamp.after.max.ms: its default became an hour with Kafka 4.0, so that each topic
# of an older source would be named, and records from the future are rare.
REJECTING_KEYS = (SIZE_KEY, "message.timestamp.before.max.ms")
RETENTION_KEYS = ("retention.ms", "retention.bytes")


def settings_to_create(settings: Settings, config: TopicConfigsConfig) -> dict[str, str]:
    """The settings that a remote topic is created with.

    Args:
        settings: Those of its source topic.
        config: What the flow excludes, and whose defaults the remote topic gets.
    """
    return {
        key: setting.value
        for key, setting in settings.items()
        if is_copied(key, setting, config)
        and (setting.origin != "default" or config.defaults_from == "source")
        and setting.value is not None
    }


def is_copied(key: str, setting: TopicSetting, config: TopicConfigsConfig) -> bool:
    """Whether the remote topic follows this setting of its source topic."""
    return (
        not setting.is_read_only
        and not setting.is_sensitive
        and setting.origin != "server.properties"
        and NameFilter((".*",), config.exclude).accepts(key)
    )


def topic_to_retry(topic: NewTopic, reason: str) -> NewTopic | None:
    """The topic to create after the target rejected *topic* for one of its settings.

    Without the setting that *reason* names first; if it names none, with ``max.message.bytes``
    alone, so that the remote topic accepts the same records. None if no setting is left to drop.
    """
    named = first_named((key for key, _ in topic.configs), reason)
    left = tuple(
        (key, value)
        for key, value in topic.configs
        if (key == SIZE_KEY if named is None else key != named)
    )
    return replace(topic, configs=left) if left != topic.configs else None


def first_named(keys: Iterable[str], text: str) -> str | None:
    """The key of *keys* that *text* names first; None if it names none.

    A key does not count where it is part of a longer one: ``retention.ms`` in
    ``delete.retention.ms``.
    """
    patterns = {key: rf"(?<![\w.]){re.escape(key)}(?!\.?\w)" for key in keys}
    found = {key: re.search(pattern, text) for key, pattern in patterns.items()}
    places = {key: match.start() for key, match in found.items() if match}
    return min(places, key=lambda key: places[key], default=None)


def describe_losses(source: Settings, target: Settings) -> tuple[str, ...]:
    """Why the remote topic would reject or delete records that its source topic keeps.

    Args:
        source: The settings in effect for the source topic.
        target: The settings in effect for the remote topic.

    Returns:
        One phrase for each setting, with both values; none if the target keeps as much.
    """
    return tuple(
        f"{key}={target[key].value} ({source[key].value} on the source)"
        for key in _stricter(source, target)
        if key in source and key in target
    )


def _stricter(source: Settings, target: Settings) -> Iterator[str]:
    """The settings by which the target keeps less."""
    yield from (key for key in REJECTING_KEYS if _number(target, key) < _number(source, key))
    shorter = [key for key in RETENTION_KEYS if _limit(target, key) < _limit(source, key)]
    only_target = _policies(target) - _policies(source)
    if "compact" in only_target or (shorter and "delete" in only_target):
        yield "cleanup.policy"
    yield from shorter


def _policies(settings: Settings) -> set[str]:
    value = settings["cleanup.policy"].value if "cleanup.policy" in settings else None
    return {item.strip() for item in (value or "").split(",")} - {""}


def _limit(settings: Settings, key: str) -> float:
    """What deletion by *key* leaves: infinite if the topic deletes nothing by it."""
    return _number(settings, key) if "delete" in _policies(settings) else inf


def _number(settings: Settings, key: str) -> float:
    """The value of *key*; infinite for -1, Kafka's "no limit", and where it is unknown."""
    value = int(settings[key].value or -1) if key in settings else -1
    return inf if value < 0 else value
