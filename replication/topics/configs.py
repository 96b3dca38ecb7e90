"""Which topic settings a remote topic gets, and what the target would not keep. Pure.

The rules for copying are MirrorMaker 2's: settings of the source's ``server.properties``, read-only
and sensitive ones stay behind, as do those that ``config.properties.exclude`` names.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from replication.config.topic_settings import TopicConfigsConfig
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


def describe_losses(source: Settings, target: Settings) -> dict[str, str]:
    """Returns why the remote topic would reject or delete records that its source topic keeps.

    Args:
        source: The settings in effect for the source topic.
        target: The settings in effect for the remote topic.

    Returns:
        One phrase for each setting, with both values; none if the target keeps as much.
    """
    return {
        key: f"{key}={target[key].value} ({source[key].value} on the source)"
        for key in _stricter(source, target)
        if key in source and key in target
    }


def alter_line(servers: str, topic: str, settings: Mapping[str, str | None]) -> str:
    """Returns a line of ``kafka-configs`` that sets *settings* of a topic."""
    values = ((key, value or "") for key, value in settings.items())
    added = ",".join(f"{k}=[{v}]" if "," in v else f"{k}={v}" for k, v in values)
    return (
        f"kafka-configs --bootstrap-server {servers} --alter --entity-type topics "
        f"--entity-name '{topic}' --add-config '{added}'"
    )


def _stricter(source: Settings, target: Settings) -> Iterator[str]:
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
    value = int(settings[key].value or -1) if key in settings else -1
    return inf if value < 0 else value


# The changes that bring the settings of remote topics in step with their source topics.
#
# A plan compares three things: the source now, the target now, and what was applied last. Only
# what differs is changed, and a change that somebody else made on the target is marked as a
# conflict.

Applied = Mapping[str, str | None]
"""Setting -> the value that this flow gave it last; None if it left it to the target's default."""

TopicKey = tuple[str, str]
"""Name and id of a remote topic: a topic that is created again has another id."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of a remote topic.

    Args:
        key: Kafka's name: ``retention.ms``.
        value: What the remote topic sets from now on; None leaves it to the target's default.
        before: What it sets now; None if it sets nothing.
        is_conflict: Whether *before* is not what was applied last: somebody else changed it.
    """

    key: str
    value: str | None
    before: str | None
    is_conflict: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the target has to be changed; otherwise only the value is to be recorded."""
        return self.value != self.before

    def __str__(self) -> str:
        before, value = (
            "(target's default)" if shown is None else shown for shown in (self.before, self.value)
        )
        return f"{self.key}: {before} -> {value}"


@dataclass(frozen=True, slots=True)
class SyncHistory:
    """What a flow applied to its remote topics, and what was rejected.

    Args:
        applied: Remote topic -> setting -> the value applied last.
        rejected: Remote topic and setting -> the value that was rejected last.
    """

    applied: dict[TopicKey, dict[str, str | None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    rejected: dict[tuple[TopicKey, str], str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "SyncHistory":
        """Returns the history in the rows of the table ``topic_configs``, in any order."""
        history = cls()
        for row in sorted(rows, key=lambda row: row["at"]):
            remote = (row["remote_topic"], row["remote_id"])
            history._add(remote, row["key"], row["value"], row["rejection"])
        return history

    def add(self, remote: TopicKey, change: SettingChange, rejection: str | None) -> None:
        """Adds the outcome of one change; *rejection* is the reason if it was rejected."""
        self._add(remote, change.key, change.value, rejection)

    def _add(self, remote: TopicKey, key: str, value: str | None, rejection: str | None) -> None:
        if rejection is None:
            self.applied[remote][key] = value
            self.rejected.pop((remote, key), None)
        else:
            self.rejected[remote, key] = value

    def was_rejected(self, remote: TopicKey, change: SettingChange) -> bool:
        """Returns whether this very change was rejected before, and reported then."""
        key = (remote, change.key)
        return key in self.rejected and self.rejected[key] == change.value


def plan_changes(
    source: Settings, target: Settings, applied: Applied, config: TopicConfigsConfig
) -> tuple[SettingChange, ...]:
    """Returns what to change on a remote topic, and what to record as applied; sorted by key.

    As in MirrorMaker 2, a setting that the source topic does not set is left to the target's
    default, which removes an override made there; with ``use.defaults.from=source`` it gets the
    source's default. Settings that are not copied are left alone.

    Args:
        source: All settings of the source topic.
        target: All settings of the remote topic.
        applied: What this flow applied to it before.
        config: What the flow excludes, and whose defaults the remote topic gets.
    """
    # What this flow set and the source topic sets no longer, as its broker's file does, is handed
    # back; MirrorMaker 2 leaves such a setting on the remote topic.
    wanted: dict[str, str | None] = {
        key: None
        for key, value in applied.items()
        if key in source
        and source[key].origin == "server.properties"
        and value is not None
        and _override(target, key) == value
    }
    keeps_default = config.defaults_from == "target"
    for key, setting in source.items():
        if is_copied(key, setting, config):
            is_left = setting.origin == "default" and keeps_default
            wanted[key] = None if is_left else setting.value
    changes = []
    for key, value in sorted(wanted.items()):
        before = _override(target, key)
        if value != before:
            is_conflict = before != applied.get(key)
            changes.append(SettingChange(key, value, before, is_conflict=is_conflict))
        elif value != applied.get(key):
            changes.append(SettingChange(key, value, before))
    return tuple(changes)


def _override(settings: Settings, key: str) -> str | None:
    setting = settings.get(key)
    return setting.value if setting is not None and setting.origin == "topic" else None


# Which of one topic's settings a cluster takes, where it rejects all of them together.
#
# A rejection names the setting to blame, or none: texts of policies often name none, nor does
# Kafka's where a cluster lacks tiered storage.


@dataclass(slots=True)
class SettingTrials:
    """The requests to send, one after the other; `settle` takes the answer to each.

    Args:
        waiting: The keys of each request that is still to be sent.
        taken: The keys that the cluster has accepted.
        rejected: Those that it has not, and why.
    """

    waiting: list[tuple[str, ...]]
    taken: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[str]) -> "SettingTrials":
        """Returns *keys*' trials, which begin with all; what comes first matters most."""
        together = tuple(keys)
        return cls([together] if together else [])

    def settle(self, reason: str | None) -> None:
        """Takes the answer to the first request of ``waiting``: why it was rejected, or None.

        Without the key that *reason* names first, all others are tried together. If it names none,
        each is tried alone.
        """
        sent = self.waiting.pop(0)
        if reason is None:
            self.taken += sent
            return
        blamed = first_named(sent, reason) or (sent[0] if len(sent) == 1 else None)
        if blamed is None:
            self.waiting[:0] = [(key,) for key in sent]
            return
        self.rejected[blamed] = reason
        if others := tuple(key for key in sent if key != blamed):
            self.waiting.insert(0, others)

    def reject_all(self, reason: str) -> None:
        """Takes the answer that the first request of ``waiting`` was rejected for no setting."""
        self.rejected.update(dict.fromkeys(self.waiting.pop(0), reason))


def first_named(keys: Iterable[str], text: str) -> str | None:
    """Returns the key of *keys* that *text* names first; None if it names none.

    A key does not count where it is part of a longer one: ``retention.ms`` in
    ``delete.retention.ms``.
    """
    patterns = {key: rf"(?<![\w.]){re.escape(key)}(?!\.?\w)" for key in keys}
    found = {key: re.search(pattern, text) for key, pattern in patterns.items()}
    places = {key: match.start() for key, match in found.items() if match}
    return min(places, key=lambda key: places[key], default=None)
