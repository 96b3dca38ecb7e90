"""A flow's topics and their records: which are copied, how, and what to do in trouble. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, get_args

from replication.config.config_key import (
    LONGEST,
    MIRROR,
    MOST_REPLICAS,
    NOT_MM2,
    ConfigKey,
    choice,
    factor,
    flag,
    java_class,
    names,
    number,
    patterns,
    seconds,
    text,
)
from replication.config.limits import LIMIT_BYTES, LIMIT_RECORDS, LIMIT_TOPICS, Limit
from replication.mm2.filters import NameFilter
from replication.mm2.policy import (
    POLICY,
    SETTING_FILTER,
    TOPIC_FILTER,
    CustomClass,
    ReplicationPolicy,
)
from replication.model import (
    Chain,
    Compression,
    GuardCause,
    GuardPolicy,
    LetterKind,
    Location,
    Mode,
    Reset,
    Source,
    Timestamps,
)

LETTERS: Final = "replication.dead.letters"
LETTERS_TOPIC: Final = "replication.dead.letters.topic"


@dataclass(frozen=True, kw_only=True)
class DeadLettersConfig:
    """Where a flow keeps records that cannot be copied."""

    kind: Annotated[
        LetterKind,
        choice(
            LETTERS,
            LetterKind,
            "none",
            "keeps a record that cannot be copied in a topic on the target or in a table, so that "
            "its topic goes on; with none the topic is set aside",
            "MirrorMaker 2's task fails",
        ),
    ]
    letters_topic: Annotated[
        str,
        ConfigKey(
            LETTERS_TOPIC,
            "text",
            "",
            "the topic on the target for such records, made where it does not exist; by default "
            "A.dead-letters.internal",
            NOT_MM2,
        ),
    ]
    most: Annotated[
        int,
        number(
            "replication.dead.letters.max",
            "10",
            "how many records of a partition may be kept in a row, or among ten times as many "
            "offsets; then the topic is set aside",
            least=1,
        ),
    ]


# What a flow keeps equal on its remote topics: configs, ACLs, deletions.

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


# The topic in which the owner of a flow says how it is: Connect's status topic.

STATUS_TOPIC: Final = "status.storage.topic"
_PLACES: Final = ("top", "flow", "target")  # MirrorMaker 2 configures a worker for each target


@dataclass(frozen=True, kw_only=True)
class StatusConfig:
    """A flow's status topic on its target; an empty name turns it off."""

    storage_topic: Annotated[
        str,
        ConfigKey(
            STATUS_TOPIC,
            "text",
            "",
            "the topic on the target in which the owner of a flow says how it is, as Connect's "
            "workers do; by default mm2-status.A.internal. Without a value behind it the key turns "
            "this off. Like the next two it may also be set as B.status.storage.topic, for all "
            "flows that write to B",
            places=_PLACES,
        ),
    ]
    partitions: Annotated[
        int,
        ConfigKey(
            "status.storage.partitions",
            "number",
            "5",
            "partitions of the status topic where it is created; -1 for the cluster's default",
            least=-1,
            places=_PLACES,
        ),
    ]
    replication_factor: Annotated[
        int,
        ConfigKey(
            "status.storage.replication.factor",
            "number",
            "3",
            "replication factor of the status topic; -1 for the cluster's default",
            least=-1,
            most=MOST_REPLICAS,
            places=_PLACES,
        ),
    ]
    interval_seconds: Annotated[
        int,
        number(
            "status.publish.interval.seconds",
            "5",
            "how often the figures of a flow are measured and its status is written, in seconds; "
            "a change of state is written at once; with more than 2500 partitions in the process, "
            "half as often; 0 for never",
            NOT_MM2,
            most=LONGEST,
        ),
    ]
    slo_lag_seconds: Annotated[
        int,
        number(
            "slo.lag.seconds",
            "30",
            "from this lag on, in seconds, a flow is degraded",
            NOT_MM2,
            least=1,
            most=LONGEST,
        ),
    ]


DEFAULT_POLICY: Final = f"{MIRROR}DefaultReplicationPolicy"
IDENTITY_POLICIES: Final = (
    f"{MIRROR}IdentityReplicationPolicy",
    "IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.cloudera.dim.kafka.mirror.IdentityReplicationPolicy",
    "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
)
MODE: Final = ConfigKey(
    "replication.mode",
    "choice",
    "auto",
    "how the query runs; drain copies what exists at the start and ends",
    NOT_MM2,
    choices=get_args(Mode),
)
TASKS_MAX: Final = ConfigKey(
    "tasks.max",
    "number",
    "",
    "maximum tasks of the flow with the shared source; by default one for each core, at most 8, "
    "and in Real-Time Mode two for each core of all flows together",
    "MirrorMaker 2's default is 1; Spark's source has a task for each partition",
    least=1,
)


@dataclass(frozen=True, kw_only=True)
class TopicsConfig:
    """A flow's topics, and the names of its remote topics."""

    topics: Annotated[
        tuple[str, ...],
        patterns(
            "topics",
            ".*",
            "topics to replicate: names or regexes, each matching the whole name",
            "an item of a YAML list may contain a comma, which MirrorMaker 2 does not support",
        ).reloadable(),
    ]
    topics_exclude: Annotated[
        tuple[str, ...],
        patterns(
            "topics.exclude",
            r"mm2.*\.internal, .*\.replica, __.*",
            "topics never replicated; takes precedence over topics",
        ).reloadable(),
    ]
    topic_filter: Annotated[
        CustomClass | None,
        java_class(
            TOPIC_FILTER,
            f"{MIRROR}DefaultTopicFilter",
            "decides which topics are replicated; one of yours decides in place of topics and "
            "topics.exclude",
        ),
    ] = None
    heartbeats_replication_enabled: Annotated[
        bool,
        flag(
            "heartbeats.replication.enabled",
            "true",
            "replicates heartbeats topics even if topics does not match them",
        ).reloadable(),
    ]
    policy: Annotated[
        ReplicationPolicy,
        java_class(
            POLICY,
            DEFAULT_POLICY,
            "how remote topics are named: Default adds the source alias, Identity keeps the name",
            *IDENTITY_POLICIES,
        ),
        ConfigKey(
            "replication.policy.separator",
            "text",
            ".",
            "separates the source alias from the topic name",
        ),
        ConfigKey(
            "replication.policy.internal.topic.separator.enabled",
            "flag",
            "true",
            "uses replication.policy.separator in the names of checkpoints and offset-syncs topics "
            "too",
        ),
    ]
    aggregate_topics: Annotated[
        tuple[str, ...],
        patterns(
            "replication.aggregate.topics",
            "",
            "remote topics that others write as well: names or regexes. Every flow "
            "that writes one must name it. Its records are copied at least once",
            "not a key of MirrorMaker 2, which does not notice other writers",
        ),
    ]
    replication_factor: Annotated[
        int, factor("replication.factor", "2", "topics created on the target").reloadable()
    ]
    refresh_topics_enabled: Annotated[
        bool,
        flag(
            "refresh.topics.enabled",
            "true",
            "detects new topics and partitions while the flow runs",
        ),
    ]
    refresh_topics_interval_seconds: Annotated[
        int, seconds("refresh.topics.interval.seconds", "600", "interval between topic refreshes")
    ]

    def selects(self, topic: str) -> bool:
        """Returns whether the lists, or the user's filter, select *topic* of the source."""
        if self.topic_filter is not None:
            return bool(self.topic_filter.ask("shouldReplicateTopic", topic))
        return NameFilter(self.topics, self.topics_exclude).accepts(topic)


@dataclass(frozen=True, kw_only=True)
class RecordsConfig:
    """How a flow copies records, and where it starts."""

    mode: Annotated[Mode, MODE]
    record_source: Annotated[
        Source,
        choice(
            "replication.source",
            Source,
            "auto",
            "which Kafka source reads the records: shared has few tasks for all partitions, spark "
            "is Spark's own with a task for each",
            NOT_MM2,
        ),
    ]
    tasks_max: Annotated[int | None, TASKS_MAX]
    realtime_batch_seconds: Annotated[
        int,
        number(
            "replication.realtime.batch.seconds",
            "600",
            "length of a Real-Time batch in seconds; at most 60 where executors cannot report",
            least=1,
            most=86_400,
        ),
    ]
    batch_max_records: Annotated[
        int,
        number(
            "replication.batch.max.records",
            "1000000",
            "maximum records per batch in the modes microbatch and drain",
            least=1,
        ),
    ]
    takeover_topic: Annotated[
        str,
        text(
            "replication.takeover.topic",
            "topic on the target with MirrorMaker 2's positions, such as mm2-offsets.A.internal; a "
            "partition whose remote records do not tell where to resume resumes there",
        ),
    ]
    drain_empty_allowed: Annotated[
        bool,
        flag(
            "replication.drain.empty.allowed",
            "false",
            "lets a drain end with success although the list topics selects no topic",
            NOT_MM2,
        ),
    ]
    record_timestamps: Annotated[
        Timestamps,
        choice(
            "record.timestamps",
            Timestamps,
            "preserve",
            "preserves the source's timestamps, or lets the target's broker set them",
            "not a key of MirrorMaker 2, which always preserves them",
        ),
    ]
    compression: Annotated[
        Compression,
        choice(
            "replication.compression.type",
            Compression,
            "producer",
            "producer compresses all copies by the producer's compression.type; source gives those "
            "of a topic the codec of its newest batches on the source",
            "not a key of MirrorMaker 2, whose copies have the producer's codec",
        ),
    ]
    has_provenance: Annotated[
        bool,
        flag(
            "replication.provenance.header.enabled",
            "false",
            "adds the header replication-provenance with the source's alias to every record, and "
            "copies no record that has passed through the target",
            NOT_MM2,
        ),
    ]
    limits: Annotated[
        tuple[Limit, ...],
        text(
            LIMIT_BYTES,
            "maximum bytes of keys, values and headers that the flow copies in a second, such as "
            "20MB; by default as much as the clusters take",
        ).reloadable(),
        text(
            LIMIT_RECORDS,
            "maximum records that the flow copies in a second; by default as many as the clusters "
            "take",
        ).reloadable(),
        names(
            LIMIT_TOPICS,
            "limits of topics, in addition to that of the flow: each item is a name or regex, and "
            "what these topics together may have in a second, as in 'clicks.* 2MB/s 500records/s'",
        ).reloadable(),
    ] = ()
    transforms: Annotated[
        Chain,
        names(
            "replication.transforms",
            "names of transforms, which filter and change records, in their order; each has keys "
            "of its own, such as replication.transforms.NAME.topics, .filter and .value: "
            "conf/docs/transforms.md",
        ),
    ] = ()
    auto_offset_reset: Annotated[
        Reset,
        choice(
            "auto.offset.reset",
            Reset,
            "earliest",
            "where a partition without a stored position starts",
            "MirrorMaker 2 has it only as A.consumer.auto.offset.reset, which works here too",
        ).sets("source.consumer", "auto.offset.reset"),
    ]


def _guard(cause: GuardCause, meaning: str, default: GuardPolicy = "fail") -> ConfigKey:
    return ConfigKey(
        f"replication.guard.{cause}",
        "choice",
        default,
        f"what to do if {meaning}",
        "MirrorMaker 2 does not notice it",
        choices=get_args(GuardPolicy),
    ).reloadable()


_GUARDS: Final[Mapping[GuardCause, ConfigKey]] = {
    "records-expired": _guard(
        "records-expired", "the source has deleted records that were not copied yet"
    ),
    "source-truncated": _guard(
        "source-truncated", "the source's log was cut before the last copied record"
    ),
    "source-recreated": _guard("source-recreated", "a source topic was deleted and created again"),
    "target-truncated": _guard(
        "target-truncated", "a remote partition has lost copied records at its end"
    ),
    "unmatched": _guard(
        "unmatched", "the source has none of the last records of a remote partition"
    ),
    "foreign-records": _guard(
        "foreign-records", "another producer writes to a remote partition", "skip"
    ),
    "copies-expired": _guard(
        "copies-expired", "the target's retention would delete records as soon as it gets them"
    ),
}


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """What a flow does where a partition cannot resume without losing or repeating records.

    The ``policies`` are those of ``topics``; every other topic is set aside.
    """

    topics: Annotated[
        tuple[str, ...],
        patterns(
            "replication.guard.topics",
            ".*",
            "topics to which the policies below apply: names or regexes; all others fail",
            NOT_MM2,
        ).reloadable(),
    ]
    policies: Annotated[Mapping[GuardCause, GuardPolicy], _GUARDS]

    def policy(self, cause: GuardCause, topic: str) -> GuardPolicy:
        return self.policies[cause] if NameFilter(self.topics, ()).accepts(topic) else "fail"
