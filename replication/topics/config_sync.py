"""The changes that bring the settings of remote topics in step with their source topics. Pure.

A plan compares three things: the source now, the target now, and what was applied last. Only what
differs is changed, and a change that somebody else made on the target is marked as a conflict.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from replication.config.metadata_settings import TopicConfigsConfig
from replication.topics.configs import Settings, is_copied

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
    changes = _changes(source, target, applied, config)
    return tuple(sorted(changes, key=lambda change: change.key))


def _changes(
    source: Settings, target: Settings, applied: Applied, config: TopicConfigsConfig
) -> Iterator[SettingChange]:
    wanted = {**_handed_back(source, target, applied), **_wanted(source, config)}
    for key, value in wanted.items():
        before = _override(target, key)
        if value != before:
            yield SettingChange(key, value, before, is_conflict=before != applied.get(key))
        elif value != applied.get(key):
            yield SettingChange(key, value, before)


def _wanted(source: Settings, config: TopicConfigsConfig) -> Applied:
    """Returns the value that the remote topic should have for each setting, None for none."""
    keeps_default = config.defaults_from == "target"
    return {
        key: None if setting.origin == "default" and keeps_default else setting.value
        for key, setting in source.items()
        if is_copied(key, setting, config)
    }


def _handed_back(source: Settings, target: Settings, applied: Applied) -> Applied:
    """Returns what this flow set and the source topic sets no longer, as its broker's file does.

    MirrorMaker 2 leaves such a setting on the remote topic.
    """
    return {
        key: None
        for key, value in applied.items()
        if key in source
        and source[key].origin == "server.properties"
        and value is not None
        and _override(target, key) == value
    }


def _override(settings: Settings, key: str) -> str | None:
    """Returns the value that the topic itself sets."""
    setting = settings.get(key)
    return setting.value if setting is not None and setting.origin == "topic" else None
