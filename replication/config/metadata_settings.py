"""What a flow keeps equal on its remote topics: configs, ACLs, deletions. Pure."""

from dataclasses import dataclass
from typing import Annotated, Final

from replication.config.config_key import (
    LONGEST,
    MIRROR,
    choice,
    flag,
    java_class,
    number,
    patterns,
    seconds,
)
from replication.mm2.custom import SETTING_FILTER, CustomClass
from replication.mm2.filters import NameFilter
from replication.model import Location

_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)


@dataclass(frozen=True, kw_only=True)
class TopicConfigsConfig:
    """A flow's topic configs: which are copied, whose defaults apply, and how often to compare."""

    sync_enabled: Annotated[
        bool,
        flag(
            "sync.topic.configs.enabled",
            "true",
            "keeps the configs of remote topics equal to the source's",
        ),
    ]
    sync_interval_seconds: Annotated[
        int, seconds("sync.topic.configs.interval.seconds", "600", "interval between config syncs")
    ]
    exclude: Annotated[
        tuple[str, ...],
        patterns(
            "config.properties.exclude",
            _CONFIG_EXCLUDE,
            "topic configs never copied: names or regexes",
        ).reloadable(),
    ]
    setting_filter: Annotated[
        CustomClass | None,
        java_class(
            SETTING_FILTER,
            f"{MIRROR}DefaultConfigPropertyFilter",
            "decides which topic configs are copied; one of yours decides in place of "
            "config.properties.exclude",
        ),
    ] = None
    defaults_from: Annotated[
        Location,
        choice(
            "use.defaults.from",
            Location,
            "target",
            "whose default a remote topic gets for a config that the source topic does not set",
            "MirrorMaker 2 ignores it at top level",
        ).reloadable(),
    ]

    def copies(self, key: str) -> bool:
        """Returns whether the list, or the user's filter, lets the setting *key* be copied."""
        if self.setting_filter is not None:
            return bool(self.setting_filter.ask("shouldReplicateConfigProperty", key))
        return NameFilter((".*",), self.exclude).accepts(key)


@dataclass(frozen=True, kw_only=True)
class AclsConfig:
    """A flow's topic ACLs: whether they are copied, which, how often, and whether also removed."""

    sync_enabled: Annotated[
        bool, flag("sync.topic.acls.enabled", "true", "copies topic ACLs to the remote topics")
    ]
    sync_interval_seconds: Annotated[
        int, seconds("sync.topic.acls.interval.seconds", "600", "interval between ACL syncs")
    ]
    prefixed: Annotated[
        bool,
        flag(
            "replication.acls.prefixed.enabled",
            "false",
            "copies ACLs for all topics with a prefix, and those for all topics (*) as well",
            "not a key of MirrorMaker 2, which copies literal names only",
        ).reloadable(),
    ]
    removal: Annotated[
        bool,
        flag(
            "replication.acls.removal.enabled",
            "false",
            "removes ACLs that the flow created on the target once they are gone on the source",
            "not a key of MirrorMaker 2, which never removes an ACL",
        ).reloadable(),
    ]


@dataclass(frozen=True, kw_only=True)
class DeletionsConfig:
    """Whether a deleted topic's remote topic is also deleted, and how much later."""

    enabled: Annotated[
        bool,
        flag(
            "replication.deletions.enabled",
            "false",
            "deletes a remote topic some time after its source topic was deleted",
            "not a key of MirrorMaker 2, which never deletes a topic",
        ).reloadable(),
    ]
    grace_seconds: Annotated[
        int,
        number(
            "replication.deletions.grace.seconds",
            "604800",
            "time from the deletion of a source topic to that of its remote topic, in seconds",
            most=10 * LONGEST,
        ).reloadable(),
    ]
