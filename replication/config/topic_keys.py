"""The keys of clusters, topics and records. Pure data."""

from typing import Final

from replication.config.config_key import (
    LONGEST,
    MIRROR,
    ConfigKey,
    factor,
    flag,
    guard,
    own_number,
    seconds,
)

DEFAULT_POLICY: Final = f"{MIRROR}DefaultReplicationPolicy"
IDENTITY_POLICIES: Final = (
    f"{MIRROR}IdentityReplicationPolicy",
    "IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.cloudera.dim.kafka.mirror.IdentityReplicationPolicy",
)
_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)

CLUSTERS: Final = (
    ConfigKey("clusters", "names", "", "aliases of all clusters", places=("top",)),
    ConfigKey(
        "enabled",
        "flag",
        "false",
        "enables a flow; at top level, the default for every pair",
    ),
    ConfigKey(
        "replication.target.clusters",
        "names",
        "",
        "aliases of the clusters that this file's flows may write to; by default all",
        "MirrorMaker 2 has the option --clusters, SRM the property SRM Driver Target Cluster",
        places=("top",),
    ),
)

TOPICS: Final = (
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
        choices=(DEFAULT_POLICY, "DefaultReplicationPolicy", *IDENTITY_POLICIES),
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
    ConfigKey(
        "replication.aggregate.topics",
        "patterns",
        "",
        "remote topics that other flows or producers write, too: names or regexes. Every flow that "
        "writes one must name it. Its records are copied at least once",
        "not a key of MirrorMaker 2, which does not notice other writers",
    ),
    factor("replication.factor", "2", "topics created on the target"),
    flag("refresh.topics.enabled", "true", "detects new topics and partitions while the flow runs"),
    seconds("refresh.topics.interval.seconds", "600", "interval between topic refreshes"),
)

RECORDS: Final = (
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
        most=86_400,
    ),
    own_number(
        "replication.batch.max.records",
        "1000000",
        "maximum records per batch in the modes microbatch and drain",
    ),
    ConfigKey(
        "replication.takeover.topic",
        "text",
        "",
        "topic on the target with MirrorMaker 2's positions, such as mm2-offsets.A.internal; a "
        "partition whose remote records do not tell where to resume resumes there",
        "not a key of MirrorMaker 2",
    ),
    *(
        ConfigKey(
            f"replication.{side}.cluster.id",
            "text",
            "",
            f"the id of the flow's {side} cluster; with it, a cluster that was rebuilt on purpose "
            "is accepted, and no other one. Without it, the first start decides",
            "not a key of MirrorMaker 2",
        )
        for side in ("source", "target")
    ),
    flag(
        "replication.drain.empty.allowed",
        "false",
        "lets a drain end with success although the list topics selects no topic",
        "not a key of MirrorMaker 2",
    ),
    ConfigKey(
        "record.timestamps",
        "choice",
        "preserve",
        "preserves the source's timestamps, or lets the target's broker set them",
        "not a key of MirrorMaker 2, which always preserves them",
        choices=("preserve", "broker"),
    ),
    flag(
        "replication.provenance.header.enabled",
        "false",
        "adds the header replication-provenance with the source's alias to every record, and "
        "copies no record that has passed through the target",
        "not a key of MirrorMaker 2",
    ),
    ConfigKey(
        "auto.offset.reset",
        "choice",
        "earliest",
        "where a partition without a stored position starts",
        "MirrorMaker 2 has it only as A.consumer.auto.offset.reset, which works here too",
        choices=("earliest", "latest"),
    ),
)

GUARD: Final = (
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
    guard("copies-expired", "the target's retention would delete records as soon as it gets them"),
)

SETTINGS: Final = (
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
        most=10 * LONGEST,
    ),
)
