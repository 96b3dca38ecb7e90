"""Which topic settings a remote topic gets, and what the target would not keep. Pure.

The rules for copying are MirrorMaker 2's: settings of the source's ``server.properties``, read-only
and sensitive ones stay behind, as do those that ``config.properties.exclude`` names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf

from replication.config.metadata_settings import TopicConfigsConfig
from replication.model import NewTopic, TopicSetting

Settings = Mapping[str, TopicSetting]
"""All settings of one topic by Kafka's names: ``retention.ms``."""

SIZE_KEY = "max.message.bytes"
# Not message.timestamp.after.max.ms: its default became an hour with Kafka 4.0, so that each topic
# of an older source would be named, and records from the future are rare.
REJECTING_KEYS = (SIZE_KEY, "message.timestamp.before.max.ms")
RETENTION_KEYS = ("retention.ms", "retention.bytes")
DECISIVE_KEYS = (SIZE_KEY, "cleanup.policy", *RETENTION_KEYS)


def settings_to_create(settings: Settings, config: TopicConfigsConfig) -> dict[str, str]:
    """Returns the settings that a remote topic is created with.

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
    """Returns whether the remote topic follows this setting of its source topic."""
    return (
        not setting.is_read_only
        and not setting.is_sensitive
        and setting.origin != "server.properties"
        and config.copies(key)
    )


def by_weight(keys: Iterable[str]) -> list[str]:
    """Sorts *keys* in the order a target may choose in: first what rejects or deletes records."""
    return sorted(keys, key=lambda key: (key not in DECISIVE_KEYS, key))


def with_settings(topic: NewTopic, keys: Collection[str]) -> NewTopic:
    """Returns *topic* with those of its settings that *keys* names."""
    return replace(topic, configs=tuple(item for item in topic.configs if item[0] in keys))


def keeps_for_less(source: Settings, target: Settings, config: TopicConfigsConfig) -> bool:
    """Returns whether the target deletes by time copies the source keeps, and nobody asked for it.

    A flow that excludes ``retention.ms`` leaves it to the target. Where the target's broker sets
    the timestamps, no copy is old.
    """
    stamped = target.get("message.timestamp.type")
    return (
        kept_ms(target) < kept_ms(source)
        and (stamped is None or stamped.value != "LogAppendTime")
        and config.copies("retention.ms")
    )


def kept_ms(settings: Settings) -> float:
    """Returns how many ms the topic keeps a record by its time; infinite if time deletes none."""
    return _limit(settings, "retention.ms")


def describe_losses(source: Settings, target: Settings) -> tuple[str, ...]:
    """Returns why the remote topic would reject or delete records that its source topic keeps.

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
    """Yields the settings by which the target keeps less."""
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
    """Returns what deletion by *key* leaves: infinite if the topic deletes nothing by it."""
    return _number(settings, key) if "delete" in _policies(settings) else inf


def _number(settings: Settings, key: str) -> float:
    """Returns the value of *key*; infinite for -1, Kafka's "no limit", and where it is unknown."""
    value = int(settings[key].value or -1) if key in settings else -1
    return inf if value < 0 else value
