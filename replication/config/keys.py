"""Every key a configuration may hold, with kind, default and meaning. Pure data.

``conf/reference.yaml`` says the same to a reader; a test keeps the two equal. Keys of MirrorMaker 2
that have no effect here are in `replication.config.ignored`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["flag", "number", "text", "choice", "choices", "names", "patterns", "class"]
Since = Literal["now", "later"]

DEFAULT_POLICY: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_MIRROR: Final = "org.apache.kafka.connect.mirror."
_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Args:
        name: As it is written at top level, or after ``A->B.``.
        kind: How its value is read.
        default: As it would be written; empty for none.
        meaning: One line; says the unit where there is one.
        mm2: How it compares with MirrorMaker 2, as a phrase; empty where it is the same.
        choices: All values allowed, for the kinds choice, choices and class.
        least: The smallest number allowed, for the kind number.
        since: ``later``: checked already, in effect when its part of the mirror is.
        places: ``top`` and ``flow``: where it may stand; a flow's own value wins.
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    mm2: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    since: Since = "now"
    places: tuple[str, ...] = ("top", "flow")


def _flag(name: str, default: str, meaning: str, mm2: str = "", since: Since = "now") -> Key:
    return Key(name, "flag", default, meaning, mm2, since=since)


def _seconds(name: str, default: str, meaning: str, since: Since = "now") -> Key:
    return Key(name, "number", default, f"{meaning}, in seconds", least=1, since=since)


def _factor(name: str, default: str, what: str, since: Since = "now") -> Key:
    meaning = f"replicas of {what}; -1 is the cluster's own default"
    return Key(name, "number", default, meaning, least=-1, since=since)


def _class(name: str, default: str) -> Key:
    return Key(
        name,
        "class",
        _MIRROR + default,
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2 no other class can be used",
        choices=(_MIRROR + default, default),
    )


_CATALOGUE: Final = (
    Key("clusters", "names", "", "aliases of all clusters", places=("top",)),
    Key(
        "state.dir",
        "text",
        "",
        "where the Delta tables live: a URI, or an absolute path; by default a local folder",
        "not a key of MirrorMaker 2, which keeps its state in Kafka",
        places=("top",),
    ),
    Key(
        "enabled",
        "flag",
        "false",
        "whether a flow runs; at top level: of every pair that does not say",
        "as in MirrorMaker 2",
        places=("top", "flow"),
    ),
    Key(
        "topics",
        "patterns",
        ".*",
        "topics to copy: names or regexes, each matching the whole name",
        "a comma inside a regex can be written in a YAML list, which MirrorMaker 2 cannot have",
    ),
    Key(
        "topics.exclude",
        "patterns",
        r"mm2.*\.internal, .*\.replica, __.*",
        "topics never copied; wins over topics",
    ),
    _flag(
        "heartbeats.replication.enabled",
        "true",
        "copy heartbeats topics even where the lists above do not",
    ),
    Key(
        "replication.policy.class",
        "class",
        DEFAULT_POLICY,
        "naming of the copies: source alias as prefix, or Identity for equal names",
        "unlike in MirrorMaker 2 no other class can be used",
        choices=(
            DEFAULT_POLICY,
            IDENTITY_POLICY,
            "DefaultReplicationPolicy",
            "IdentityReplicationPolicy",
        ),
    ),
    Key("replication.policy.separator", "text", ".", "stands between alias and topic name"),
    _flag(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "whether checkpoints and offset-syncs topics use that separator too",
    ),
    _factor("replication.factor", "2", "topics made on the target"),
    _flag("refresh.topics.enabled", "true", "look for new topics and partitions"),
    _seconds("refresh.topics.interval.seconds", "600", "time between two such looks"),
    Key(
        "replication.mode",
        "choice",
        "auto",
        "how the query runs; drain catches up and ends",
        "not a key of MirrorMaker 2",
        choices=("auto", "realtime", "microbatch", "drain"),
    ),
    Key(
        "replication.realtime.batch.seconds",
        "number",
        "60",
        "length of a Real-Time batch, hence age of the offset map, in seconds",
        "not a key of MirrorMaker 2",
        least=5,
    ),
    Key(
        "replication.batch.max.records",
        "number",
        "1000000",
        "most records in one batch of the modes microbatch and drain",
        "not a key of MirrorMaker 2",
        least=1,
    ),
    Key(
        "record.timestamps",
        "choice",
        "preserve",
        "preserve the source's timestamps, or let the target's broker set them",
        "not a key of MirrorMaker 2, which always preserves",
        choices=("preserve", "broker"),
    ),
    Key(
        "auto.offset.reset",
        "choice",
        "earliest",
        "where a partition without a position starts",
        "in MirrorMaker 2 only as A.consumer.auto.offset.reset, which works here too",
        choices=("earliest", "latest"),
    ),
    # Topic metadata
    _flag(
        "sync.topic.configs.enabled",
        "true",
        "keep topic configs of the copies equal",
        since="later",
    ),
    _seconds(
        "sync.topic.configs.interval.seconds", "600", "time between two config syncs", since="later"
    ),
    Key(
        "config.properties.exclude",
        "patterns",
        _CONFIG_EXCLUDE,
        "topic configs never copied: names or regexes",
    ),
    Key(
        "use.defaults.from",
        "choice",
        "target",
        "whose defaults a remote topic gets for configs not set on the source topic",
        "MirrorMaker 2 drops it at top level",
        choices=("target", "source"),
    ),
    _flag("sync.topic.acls.enabled", "true", "copy topic ACLs", since="later"),
    _seconds(
        "sync.topic.acls.interval.seconds", "600", "time between two ACL syncs", since="later"
    ),
    # Offset syncs
    _flag("emit.offset-syncs.enabled", "true", "write offset syncs for MirrorMaker 2's clients"),
    Key(
        "offset-syncs.topic.location",
        "choice",
        "source",
        "the cluster that holds the offset-syncs topic",
        choices=("source", "target"),
    ),
    _factor("offset-syncs.topic.replication.factor", "3", "the offset-syncs topic"),
    Key(
        "offset.lag.max",
        "number",
        "100",
        "most records between two offset syncs",
    ),
    # Groups
    Key("groups", "patterns", ".*", "groups to translate: names or regexes"),
    Key(
        "groups.exclude",
        "patterns",
        "console-consumer-.*, connect-.*, __.*",
        "groups never translated; wins over groups",
    ),
    _flag("refresh.groups.enabled", "true", "look for new groups"),
    _seconds("refresh.groups.interval.seconds", "600", "time between two such looks"),
    _flag("emit.checkpoints.enabled", "true", "write group checkpoints on the target"),
    _seconds("emit.checkpoints.interval.seconds", "60", "time between two rounds of checkpoints"),
    _flag("sync.group.offsets.enabled", "false", "commit translated offsets on the target"),
    _seconds("sync.group.offsets.interval.seconds", "60", "time between two such commits"),
    Key(
        "sync.group.offsets.on.rewind",
        "choice",
        "keep",
        "the target's group when the source's was set back: keep its place, or follow",
        "not a key of MirrorMaker 2, which keeps",
        choices=("keep", "follow"),
    ),
    _factor("checkpoints.topic.replication.factor", "3", "the checkpoints topic"),
    # Heartbeats
    _flag("emit.heartbeats.enabled", "true", "write heartbeats on the target"),
    _seconds("emit.heartbeats.interval.seconds", "1", "time between two heartbeats"),
    Key(
        "heartbeats.topic.location",
        "choice",
        "target",
        "the cluster that gets the heartbeats of a flow",
        "not a key of MirrorMaker 2, which takes the target",
        choices=("source", "target"),
    ),
    _factor("heartbeats.topic.replication.factor", "3", "the heartbeats topic"),
    Key(
        "metric.names.formats",
        "choices",
        "legacy",
        "forms of the metric names: legacy, new",
        choices=("legacy", "new"),
        since="later",
    ),
    _class("topic.filter.class", "DefaultTopicFilter"),
    _class("group.filter.class", "DefaultGroupFilter"),
    _class("config.property.filter.class", "DefaultConfigPropertyFilter"),
    Key(
        "forwarding.admin.class",
        "class",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2 no other class can be used",
        choices=("org.apache.kafka.clients.admin.ForwardingAdmin",),
    ),
)


def _by_name(keys: Iterable[Key]) -> dict[str, Key]:
    return {key.name: key for key in keys}


KEYS: Final = _by_name(_CATALOGUE)
REPLICATION_FACTORS: Final = tuple(name for name in KEYS if name.endswith("replication.factor"))
