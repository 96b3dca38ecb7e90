"""Every configuration key with its kind, default and meaning. Pure data.

``conf/reference.yaml`` presents the same to operators; a test keeps the two equal. MirrorMaker 2's
keys that have no effect here are in `replication.config.ignored`.
"""

from collections.abc import Iterable
from typing import Final

from replication.config.key import ConfigKey, Since

DEFAULT_POLICY: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_MIRROR: Final = "org.apache.kafka.connect.mirror."
_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)


def _flag(name: str, default: str, meaning: str, mm2: str = "", since: Since = "now") -> ConfigKey:
    return ConfigKey(name, "flag", default, meaning, mm2, since=since)


def _seconds(name: str, default: str, meaning: str, since: Since = "now") -> ConfigKey:
    return ConfigKey(name, "number", default, f"{meaning}, in seconds", least=1, since=since)


def _factor(name: str, default: str, what: str, since: Since = "now") -> ConfigKey:
    meaning = f"replication factor of {what}; -1 for the cluster's default"
    return ConfigKey(name, "number", default, meaning, least=-1, since=since)


def _guard(cause: str, meaning: str, default: str = "fail") -> ConfigKey:
    return ConfigKey(
        f"replication.guard.{cause}",
        "choice",
        default,
        f"what to do if {meaning}",
        "MirrorMaker 2 does not notice it",
        choices=("fail", "stop", "skip", "restart"),
    )


def _class(name: str, default: str) -> ConfigKey:
    return ConfigKey(
        name,
        "class",
        _MIRROR + default,
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2, no other class is supported",
        choices=(_MIRROR + default, default),
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
    _flag(
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
    _flag(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "uses replication.policy.separator in the names of checkpoints and offset-syncs topics too",
    ),
    _factor("replication.factor", "2", "topics created on the target"),
    _flag(
        "refresh.topics.enabled", "true", "detects new topics and partitions while the flow runs"
    ),
    _seconds("refresh.topics.interval.seconds", "600", "interval between topic refreshes"),
    ConfigKey(
        "replication.mode",
        "choice",
        "auto",
        "how the query runs; drain copies what exists at the start and ends",
        "not a key of MirrorMaker 2",
        choices=("auto", "realtime", "microbatch", "drain"),
    ),
    ConfigKey(
        "replication.realtime.batch.seconds",
        "number",
        "600",
        "length of a Real-Time batch in seconds; at most 60 where executors cannot report",
        "not a key of MirrorMaker 2",
        least=5,
    ),
    ConfigKey(
        "replication.batch.max.records",
        "number",
        "1000000",
        "maximum records per batch in the modes microbatch and drain",
        "not a key of MirrorMaker 2",
        least=1,
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
    _guard("records-expired", "the source has deleted records that were not copied yet"),
    _guard("source-truncated", "the source's log ends before the last copied record"),
    _guard("source-recreated", "a source topic was deleted and created again"),
    _guard("target-truncated", "a remote partition has lost copied records at its end"),
    _guard("unmatched", "the source has none of the last records of a remote partition"),
    _guard("foreign-records", "another producer writes to a remote partition", "skip"),
    # Topic metadata
    _flag(
        "sync.topic.configs.enabled",
        "true",
        "keeps the configs of remote topics equal to the source's",
    ),
    _seconds("sync.topic.configs.interval.seconds", "600", "interval between config syncs"),
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
    _flag("sync.topic.acls.enabled", "true", "replicates topic ACLs", since="later"),
    _seconds(
        "sync.topic.acls.interval.seconds", "600", "interval between ACL syncs", since="later"
    ),
    # Offset syncs
    _flag("emit.offset-syncs.enabled", "true", "writes offset syncs for MirrorMaker 2's clients"),
    ConfigKey(
        "offset-syncs.topic.location",
        "choice",
        "source",
        "the cluster that holds the offset-syncs topic",
        choices=("source", "target"),
    ),
    _factor("offset-syncs.topic.replication.factor", "3", "the offset-syncs topic"),
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
    _flag("refresh.groups.enabled", "true", "detects new groups while the flow runs"),
    _seconds("refresh.groups.interval.seconds", "600", "interval between group refreshes"),
    _flag("emit.checkpoints.enabled", "true", "writes group checkpoints to the target"),
    _seconds("emit.checkpoints.interval.seconds", "60", "interval between rounds of checkpoints"),
    _flag("sync.group.offsets.enabled", "false", "commits translated offsets on the target"),
    _seconds(
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
    _factor("checkpoints.topic.replication.factor", "3", "the checkpoints topic"),
    # Heartbeats
    _flag("emit.heartbeats.enabled", "true", "writes heartbeats to the target"),
    _seconds("emit.heartbeats.interval.seconds", "1", "interval between heartbeats"),
    ConfigKey(
        "heartbeats.topic.location",
        "choice",
        "target",
        "the cluster that receives a flow's heartbeats",
        "not a key of MirrorMaker 2, which uses the target",
        choices=("source", "target"),
    ),
    _factor("heartbeats.topic.replication.factor", "3", "the heartbeats topic"),
    ConfigKey(
        "metric.names.formats",
        "choices",
        "legacy",
        "formats of metric names: legacy, new",
        choices=("legacy", "new"),
        since="later",
    ),
    _class("topic.filter.class", "DefaultTopicFilter"),
    _class("group.filter.class", "DefaultGroupFilter"),
    _class("config.property.filter.class", "DefaultConfigPropertyFilter"),
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
