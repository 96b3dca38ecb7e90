"""A flow's offset syncs, consumer groups, heartbeats and rows in the Delta tables. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from replication.config.config_key import (
    LONGEST,
    MIRROR,
    NOT_MM2,
    ConfigKey,
    choice,
    factor,
    flag,
    java_class,
    number,
    patterns,
    seconds,
)
from replication.mm2.filters import NameFilter
from replication.mm2.policy import GROUP_FILTER, CustomClass, ReplicationPolicy
from replication.model import Flow, Location, OnRewind


@dataclass(frozen=True, kw_only=True)
class OffsetSyncsConfig:
    """A flow's offset syncs for MirrorMaker 2. ``lag_max`` is the distance of two, in records."""

    enabled: Annotated[
        bool,
        flag(
            "emit.offset-syncs.enabled", "true", "writes offset syncs for MirrorMaker 2's clients"
        ),
    ]
    location: Annotated[
        Location,
        choice(
            "offset-syncs.topic.location",
            Location,
            "source",
            "the cluster that holds the offset-syncs topic",
        ),
    ]
    replication_factor: Annotated[
        int, factor("offset-syncs.topic.replication.factor", "3", "the offset-syncs topic")
    ]
    lag_max: Annotated[
        int, number("offset.lag.max", "100", "maximum records between two offset syncs", "")
    ]


@dataclass(frozen=True, kw_only=True)
class GroupsConfig:
    """A flow's consumer groups: which to translate, how often, and whether to commit."""

    groups: Annotated[
        tuple[str, ...],
        patterns("groups", ".*", "consumer groups to translate: names or regexes").reloadable(),
    ]
    groups_exclude: Annotated[
        tuple[str, ...],
        patterns(
            "groups.exclude",
            "console-consumer-.*, connect-.*, __.*",
            "groups never translated; takes precedence over groups",
        ).reloadable(),
    ]
    group_filter: Annotated[
        CustomClass | None,
        java_class(
            GROUP_FILTER,
            f"{MIRROR}DefaultGroupFilter",
            "decides which groups are translated; one of yours decides in place of groups and "
            "groups.exclude",
        ),
    ] = None
    refresh_enabled: Annotated[
        bool,
        flag(
            "refresh.groups.enabled", "true", "detects new groups while the flow runs"
        ).reloadable(),
    ]
    refresh_interval_seconds: Annotated[
        int,
        seconds(
            "refresh.groups.interval.seconds", "600", "interval between group refreshes"
        ).reloadable(),
    ]
    checkpoints_enabled: Annotated[
        bool, flag("emit.checkpoints.enabled", "true", "writes group checkpoints to the target")
    ]
    checkpoints_interval_seconds: Annotated[
        int,
        seconds(
            "emit.checkpoints.interval.seconds", "60", "interval between rounds of checkpoints"
        ).reloadable(),
    ]
    replication_factor: Annotated[
        int, factor("checkpoints.topic.replication.factor", "3", "the checkpoints topic")
    ]
    sync_enabled: Annotated[
        bool,
        flag("sync.group.offsets.enabled", "false", "commits translated offsets on the target"),
    ]
    sync_interval_seconds: Annotated[
        int,
        seconds(
            "sync.group.offsets.interval.seconds",
            "60",
            "interval between commits of translated offsets",
        ).reloadable(),
    ]
    sync_on_rewind: Annotated[
        OnRewind,
        choice(
            "sync.group.offsets.on.rewind",
            OnRewind,
            "keep",
            "what to do with the target group after the source group was rewound: keep its offset, "
            "or follow",
            "not a key of MirrorMaker 2, which keeps it",
        ).reloadable(),
    ]

    def accepts(self, group: str) -> bool:
        if self.group_filter is not None:
            return bool(self.group_filter.ask("shouldReplicateGroup", group))
        return NameFilter(self.groups, self.groups_exclude).accepts(group)


@dataclass(frozen=True, kw_only=True)
class HeartbeatsConfig:
    """Heartbeats for one pair of clusters, whether its flow is enabled or not.

    ``alias`` is the cluster that receives them; the properties are those of its clients.
    """

    flow: Annotated[
        Flow,
        ConfigKey("emit.heartbeats.enabled", "flag", "true", "writes heartbeats to the target"),
    ]
    interval_seconds: Annotated[
        int, seconds("emit.heartbeats.interval.seconds", "1", "interval between heartbeats")
    ]
    alias: Annotated[
        str,
        ConfigKey(
            "heartbeats.topic.location",
            "choice",
            "target",
            "the cluster that receives a flow's heartbeats",
            "not a key of MirrorMaker 2, which uses the target",
            choices=("source", "target"),
        ),
    ]
    policy: ReplicationPolicy
    replication_factor: Annotated[
        int, factor("heartbeats.topic.replication.factor", "3", "the heartbeats topic")
    ]
    producer: Mapping[str, str]
    admin: Mapping[str, str]

    @property
    def topic(self) -> str:
        """The topic's name; a policy of the user's is asked for it in Java."""
        return self.policy.heartbeats_topic()


def _retention(table: str, days: str) -> ConfigKey:
    meaning = f"how long the flow's rows of the table {table} are kept, in days"
    name = f"state.{table}.retention.days"
    return ConfigKey(name, "number", days, meaning, NOT_MM2, least=1, most=36_500).reloadable()


_RETENTION_DAYS: Final = {
    "events": "90",
    "checkpoints": "7",
    "leases": "90",
    "executions": "30",
    "figures": "30",
}


@dataclass(frozen=True, kw_only=True)
class StateConfig:
    """A flow's rows in the Delta tables: how often the map is written, how long others are kept.

    ``retention_days`` has the tables whose rows are deleted with age.
    """

    write_interval_seconds: Annotated[
        int,
        number(
            "state.write.interval.seconds",
            "30",
            "interval between writes of the offset map to its table, in seconds",
            least=1,
            most=LONGEST,
        ).reloadable(),
    ]
    retention_days: Annotated[
        Mapping[str, int],
        {table: _retention(table, days) for table, days in _RETENTION_DAYS.items()},
    ]
