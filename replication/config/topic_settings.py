"""A flow's topics and their records: which are copied, how, and what to do in trouble. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, get_args

from replication.config.config_key import (
    MIRROR,
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
from replication.mm2.custom import POLICY, TOPIC_FILTER, CustomClass
from replication.mm2.filters import NameFilter
from replication.mm2.policy import ReplicationPolicy
from replication.model import (
    Chain,
    Compression,
    GuardCause,
    GuardPolicy,
    Mode,
    Reset,
    Source,
    Timestamps,
)

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
        ),
    ]


def _guard(cause: GuardCause, meaning: str, default: GuardPolicy = "fail") -> ConfigKey:
    """Returns the key of one cause."""
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
        """Returns what to do with a partition of *topic*."""
        return self.policies[cause] if NameFilter(self.topics, ()).accepts(topic) else "fail"
