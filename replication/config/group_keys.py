"""The keys of offsets, groups, heartbeats and tables. Pure data."""

from typing import Final

from replication.config.config_key import (
    LONGEST,
    ConfigKey,
    factor,
    flag,
    mm2_class,
    own_number,
    retention,
    seconds,
)

OFFSET_SYNCS: Final = (
    flag("emit.offset-syncs.enabled", "true", "writes offset syncs for MirrorMaker 2's clients"),
    ConfigKey(
        "offset-syncs.topic.location",
        "choice",
        "source",
        "the cluster that holds the offset-syncs topic",
        choices=("source", "target"),
    ),
    factor("offset-syncs.topic.replication.factor", "3", "the offset-syncs topic"),
    ConfigKey(
        "offset.lag.max",
        "number",
        "100",
        "maximum records between two offset syncs",
    ),
)

GROUPS: Final = (
    ConfigKey("groups", "patterns", ".*", "consumer groups to translate: names or regexes"),
    ConfigKey(
        "groups.exclude",
        "patterns",
        "console-consumer-.*, connect-.*, __.*",
        "groups never translated; takes precedence over groups",
    ),
    flag("refresh.groups.enabled", "true", "detects new groups while the flow runs"),
    seconds("refresh.groups.interval.seconds", "600", "interval between group refreshes"),
    flag("emit.checkpoints.enabled", "true", "writes group checkpoints to the target"),
    seconds("emit.checkpoints.interval.seconds", "60", "interval between rounds of checkpoints"),
    factor("checkpoints.topic.replication.factor", "3", "the checkpoints topic"),
    flag("sync.group.offsets.enabled", "false", "commits translated offsets on the target"),
    seconds(
        "sync.group.offsets.interval.seconds",
        "60",
        "interval between commits of translated offsets",
    ),
    ConfigKey(
        "sync.group.offsets.on.rewind",
        "choice",
        "keep",
        "what to do with the target group after the source group was rewound: keep its offset, or "
        "follow",
        "not a key of MirrorMaker 2, which keeps it",
        choices=("keep", "follow"),
    ),
)

HEARTBEATS: Final = (
    flag("emit.heartbeats.enabled", "true", "writes heartbeats to the target"),
    seconds("emit.heartbeats.interval.seconds", "1", "interval between heartbeats"),
    ConfigKey(
        "heartbeats.topic.location",
        "choice",
        "target",
        "the cluster that receives a flow's heartbeats",
        "not a key of MirrorMaker 2, which uses the target",
        choices=("source", "target"),
    ),
    factor("heartbeats.topic.replication.factor", "3", "the heartbeats topic"),
)

TABLES: Final = (
    ConfigKey(
        "state.dir",
        "text",
        "",
        "where the Delta tables are stored: a URI or an absolute path; by default a local folder",
        "not a key of MirrorMaker 2, which stores its state in Kafka",
        places=("top",),
    ),
    own_number(
        "state.write.interval.seconds",
        "30",
        "interval between writes of the offset map to its table, in seconds",
        most=LONGEST,
    ),
    retention("events", "90"),
    retention("checkpoints", "7"),
    retention("leases", "90"),
)

CLASSES: Final = (
    ConfigKey(
        "metric.names.formats",
        "choices",
        "legacy",
        "formats of metric names: legacy, new",
        choices=("legacy", "new"),
        since="later",
    ),
    mm2_class("topic.filter.class", "DefaultTopicFilter"),
    mm2_class("group.filter.class", "DefaultGroupFilter"),
    mm2_class("config.property.filter.class", "DefaultConfigPropertyFilter"),
    ConfigKey(
        "forwarding.admin.class",
        "class",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2, no other class is supported",
        choices=("org.apache.kafka.clients.admin.ForwardingAdmin",),
    ),
)
