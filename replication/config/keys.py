"""Every configuration key with its kind, default and meaning. Pure data.

``conf/reference.yaml`` presents the same to operators; a test keeps the two equal. MirrorMaker 2's
keys that have no effect here are in `replication.config.ignored`.
"""

from collections.abc import Iterable
from typing import Final

from replication.config.config_key import (
    MIRROR,
    ConfigKey,
    factor,
    flag,
    guard,
    mm2_class,
    own_number,
    retention,
    seconds,
)

DEFAULT_POLICY: Final = f"{MIRROR}DefaultReplicationPolicy"
IDENTITY_POLICY: Final = f"{MIRROR}IdentityReplicationPolicy"
_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)


_CATALOGUE: Final = (
    ConfigKey("clusters", "names", "", "aliases of all clusters", places=("top",)),
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
    ),
    retention("events", "90"),
    retention("checkpoints", "7"),
    retention("leases", "90"),
    ConfigKey(
        "enabled",
        "flag",
        "false",
        "enables a flow; at top level, the default for every pair",
    ),
    ConfigKey(
        "topics",
        "patterns",
        ".*",
        "topics to replicate: names or regexes, each matching the whole name",
        "an item of a YAML list may contain a comma, which MirrorMaker 2 does not support",
    ),
    ConfigKey(
        "topics.exclude",
        "patterns",
        r"mm2.*\.internal, .*\.replica, __.*",
        "topics never replicated; takes precedence over topics",
    ),
    flag(
        "heartbeats.replication.enabled",
        "true",
        "replicates heartbeats topics even if topics does not match them",
    ),
    ConfigKey(
        "replication.policy.class",
        "class",
        DEFAULT_POLICY,
        "how remote topics are named: Default adds the source alias, Identity keeps the name",
        "unlike in MirrorMaker 2, no other class is supported",
        choices=(
            DEFAULT_POLICY,
            IDENTITY_POLICY,
            "DefaultReplicationPolicy",
            "IdentityReplicationPolicy",
        ),
    ),
    ConfigKey(
        "replication.policy.separator",
        "text",
        ".",
        "separates the source alias from the topic name",
    ),
    flag(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "uses replication.policy.separator in the names of checkpoints and offset-syncs topics too",
    ),
    factor("replication.factor", "2", "topics created on the target"),
    flag("refresh.topics.enabled", "true", "detects new topics and partitions while the flow runs"),
    seconds("refresh.topics.interval.seconds", "600", "interval between topic refreshes"),
    ConfigKey(
        "replication.mode",
        "choice",
        "auto",
        "how the query runs; drain copies what exists at the start and ends",
        "not a key of MirrorMaker 2",
        choices=("auto", "realtime", "microbatch", "drain"),
    ),
    own_number(
        "replication.realtime.batch.seconds",
        "600",
        "length of a Real-Time batch in seconds; at most 60 where executors cannot report",
        least=5,
    ),
    own_number(
        "replication.batch.max.records",
        "1000000",
        "maximum records per batch in the modes microbatch and drain",
    ),
    ConfigKey(
        "record.timestamps",
        "choice",
        "preserve",
        "preserves the source's timestamps, or lets the target's broker set them",
        "not a key of MirrorMaker 2, which always preserves them",
        choices=("preserve", "broker"),
    ),
    ConfigKey(
        "auto.offset.reset",
        "choice",
        "earliest",
        "where a partition without a stored position starts",
        "MirrorMaker 2 has it only as A.consumer.auto.offset.reset, which works here too",
        choices=("earliest", "latest"),
    ),
    # What to do where a partition cannot resume without losing or repeating records
    ConfigKey(
        "replication.guard.topics",
        "patterns",
        ".*",
        "topics to which the policies below apply: names or regexes; all others fail",
        "not a key of MirrorMaker 2",
    ),
    guard("records-expired", "the source has deleted records that were not copied yet"),
    guard("source-truncated", "the source's log ends before the last copied record"),
    guard("source-recreated", "a source topic was deleted and created again"),
    guard("target-truncated", "a remote partition has lost copied records at its end"),
    guard("unmatched", "the source has none of the last records of a remote partition"),
    guard("foreign-records", "another producer writes to a remote partition", "skip"),
    # Topic metadata
    flag(
        "sync.topic.configs.enabled",
        "true",
        "keeps the configs of remote topics equal to the source's",
    ),
    seconds("sync.topic.configs.interval.seconds", "600", "interval between config syncs"),
    ConfigKey(
        "config.properties.exclude",
        "patterns",
        _CONFIG_EXCLUDE,
        "topic configs never copied: names or regexes",
    ),
    ConfigKey(
        "use.defaults.from",
        "choice",
        "target",
        "whose default a remote topic gets for a config that the source topic does not set",
        "MirrorMaker 2 ignores it at top level",
        choices=("target", "source"),
    ),
    flag("sync.topic.acls.enabled", "true", "copies topic ACLs to the remote topics"),
    seconds("sync.topic.acls.interval.seconds", "600", "interval between ACL syncs"),
    flag(
        "replication.acls.prefixed.enabled",
        "false",
        "copies ACLs for all topics with a prefix, and those for all topics (*), too",
        "not a key of MirrorMaker 2, which copies literal names only",
    ),
    flag(
        "replication.acls.removal.enabled",
        "false",
        "removes ACLs that the flow created on the target once they are gone on the source",
        "not a key of MirrorMaker 2, which never removes an ACL",
    ),
    flag(
        "replication.deletions.enabled",
        "false",
        "deletes a remote topic some time after its source topic was deleted",
        "not a key of MirrorMaker 2, which never deletes a topic",
    ),
    ConfigKey(
        "replication.deletions.grace.seconds",
        "number",
        "604800",
        "time from the deletion of a source topic to that of its remote topic, in seconds",
        "not a key of MirrorMaker 2",
    ),
    # Offset syncs
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
    # Groups
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
    factor("checkpoints.topic.replication.factor", "3", "the checkpoints topic"),
    # Heartbeats
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


def _by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    return {key.name: key for key in keys}


KEYS: Final = _by_name(_CATALOGUE)
REPLICATION_FACTORS: Final = tuple(name for name in KEYS if name.endswith("replication.factor"))
