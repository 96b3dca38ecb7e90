"""Every configuration key by subject, what is known about each, and answers to a search. Pure."""

import textwrap
from collections.abc import Iterator
from typing import Final

from replication.config.client_keys import BY_ROLE, SECURITY
from replication.config.config_key import NOT_MM2, ConfigKey, keys_of
from replication.config.group_settings import (
    GroupsConfig,
    HeartbeatsConfig,
    OffsetSyncsConfig,
    StateConfig,
)
from replication.config.ignored import CHAINS, IGNORED, IGNORED_PREFIXES, NEVER, REMOVED
from replication.config.metrics_settings import MetricsConfig, ServeConfig
from replication.config.schema_settings import RegistryConfig, SchemasConfig
from replication.config.state_access import ENGINE, HADOOP
from replication.config.topic_settings import (
    AclsConfig,
    DeadLettersConfig,
    DeletionsConfig,
    GuardConfig,
    RecordsConfig,
    StatusConfig,
    TopicConfigsConfig,
    TopicsConfig,
)
from replication.config.values import items

_CLUSTERS: Final = (
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
    *(
        ConfigKey(
            f"replication.{side}.cluster.id",
            "text",
            "",
            f"the id of the flow's {side} cluster; with it, a cluster that was rebuilt on purpose "
            "is accepted, and no other one. Without it, the first start decides",
            NOT_MM2,
        )
        for side in ("source", "target")
    ),
)
_STATE_DIR: Final = ConfigKey(
    "state.dir",
    "text",
    "",
    "where the Delta tables are stored: a URI or an absolute path; by default a local folder",
    "not a key of MirrorMaker 2, which stores its state in Kafka",
    places=("top",),
)


_CLASSES: Final = (
    ConfigKey(
        "metric.names.formats",
        "choices",
        "legacy",
        "formats of metric names: legacy, new",
        choices=("legacy", "new"),
        since="later",
    ),
    ConfigKey(
        "forwarding.admin.class",
        "class",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2, no other class is supported",
        choices=("org.apache.kafka.clients.admin.ForwardingAdmin",),
    ),
)

SUBJECTS: Final[dict[str, tuple[ConfigKey, ...]]] = {
    "Clusters and flows": _CLUSTERS,
    "Topics and their names": keys_of(TopicsConfig),
    "How records are copied": keys_of(RecordsConfig),
    "Where a partition cannot go on without losing or repeating records": keys_of(GuardConfig),
    "Where a record cannot be copied": keys_of(DeadLettersConfig),
    "Settings, ACLs and deletion of remote topics": (
        *keys_of(TopicConfigsConfig),
        *keys_of(AclsConfig),
        *keys_of(DeletionsConfig),
    ),
    "Schemas and their registries": (*keys_of(SchemasConfig), *keys_of(RegistryConfig)),
    "Offset syncs": keys_of(OffsetSyncsConfig),
    "Consumer groups": keys_of(GroupsConfig),
    "Heartbeats": keys_of(HeartbeatsConfig),
    "What an operator is shown": keys_of(StatusConfig),
    "The Delta tables": (_STATE_DIR, ENGINE, *keys_of(StateConfig)),
    "Metrics and probes of the driver": keys_of(MetricsConfig),
    "REST and pages (replication serve)": keys_of(ServeConfig),
    "Metrics, and a class of MirrorMaker 2 that cannot be replaced": _CLASSES,
}

KEYS: Final = {key.name: key for keys in SUBJECTS.values() for key in keys}
REPLICATION_FACTORS: Final = tuple(name for name in KEYS if name.endswith("replication.factor"))


# What is known about each key: the text of conf/reference.yaml, and answers to a search.

WIDTH: Final = 96
_HEAD: Final = """\
# Every configuration key with its default. The keys are those of MirrorMaker 2, and an
# mm2.properties file can be used unchanged. Differences from MirrorMaker 2 are stated at the key.
# This file is generated: python -m replication keys --reference
#
# A key can be set in two places, and the second wins:
#   key        at top level, for every flow
#   A->B.key   for the flow from cluster A to cluster B
# Nested keys are joined with a dot: "A->B: {topics: x}" is A->B.topics: x. A list is a YAML list or
# a comma-separated string; an item of a YAML list may contain a comma.
# A.key is the only form of the few keys that are of a cluster, such as A.schema.registry.url.
# ${env:NAME}, ${file:/path} and ${file:/path:key} are replaced by values stored elsewhere. The
# providers that config.providers declares (FileConfigProvider, EnvVarConfigProvider,
# DirectoryConfigProvider) work as in MirrorMaker 2.
# hadoop.x is Hadoop's property x, for a state.dir that is not on this machine, such as
# hadoop.fs.s3a.endpoint. At top level only. Not a key of MirrorMaker 2, which has no state.dir.
# "Accepted, but not implemented in this version": the value is checked and has no effect, even
# where the default is true.
# "Read anew each turn": a running flow has nothing open that depends on the value. In this version
# a file is read at the start only, so that a change of it still needs a restart.

clusters: [A, B]

# Kafka client properties, with the names of the Java clients. For the data of A->B a later line
# wins:
#   1. security.protocol, ssl.*, sasl.*   at top level: all clients of all clusters
#   2. source.cluster.x, target.cluster.x   at top level: each client of a flow's source or target
#      MirrorMaker 2 ignores these in a file.
#   3. consumer.x, producer.x, admin.x, producer.override.x   at top level: all clusters
#      MirrorMaker 2 ignores these.
#   4. source.consumer.x ... target.admin.x   at top level; MirrorMaker 2 ignores these too
#   5. A.x   every client of cluster A that has the property x
#      MirrorMaker 2 uses bootstrap.servers and security properties only.
#   6. A->B.source.cluster.x, A->B.target.cluster.x
#   7. A->B.consumer.x, A->B.producer.x, A->B.admin.x
#      In MirrorMaker 2, security properties of the form A.x win over these, and A->B.producer.x
#      applies to offset syncs only, not to the data.
#   8. A.consumer.x, A.producer.x, A.admin.x   (B.producer.x is for the data producer of A->B)
#   9. A->B.source.consumer.x ... A->B.target.admin.x
#  10. A->B.producer.override.x   the data producer of the flow
# A key of the mirror that sets a client property, as auto.offset.reset does, wins over all these
# after a flow's name; at top level 2 to 10 win over it.
# The mirror sets these itself, and a file's value has no effect: serializers, deserializers,
# interceptor.classes, transactional.id, group.id, partitioner.class; and on producers, unless the
# value is the mirror's: acks (all), enable.idempotence (true), retries and delivery.timeout.ms
# (unlimited), max.in.flight.requests.per.connection (1 to 5).
A.bootstrap.servers: localhost:9092
B.bootstrap.servers: localhost:9093
"""
_HADOOP_ENTRY: Final = f"""\
# Hadoop's property x, for a state.dir that is not on this machine. At top level only. Not a key of
#   MirrorMaker 2.
# {HADOOP}x:"""
_FLOW: Final = """\

# Settings of one flow: every key above except clusters, state.dir and replication.target.clusters.
A->B:
  enabled: true
  # source.cluster.alias, target.cluster.alias: accepted if they are A and B
"""


def reference() -> str:
    """Returns the text of conf/reference.yaml."""
    parts = [_HEAD]
    for subject, keys in SUBJECTS.items():
        parts.append(f"\n# {subject}\n# {'-' * len(subject)}\n")
        parts += [f"\n{_entry(key)}\n" for key in keys if key.name != "clusters"]
    return "".join([*parts, _FLOW, *_without_effect()])


def search(text: str) -> Iterator[str]:
    """Yields an entry for each key whose name contains *text*; all of the mirror's if empty.

    Beside the mirror's own keys these are MirrorMaker 2's keys without effect, and properties of
    Kafka's clients.
    """
    wanted = text.lower()
    for keys in SUBJECTS.values():
        yield from (_entry(key) for key in keys if wanted in key.name)
    if not wanted:
        return
    if HADOOP in wanted or wanted in HADOOP:
        yield _HADOOP_ENTRY
    for name, new in REMOVED.items():
        if wanted in name:
            yield f"# Removed in Kafka 4.0; is read as {new}.\n# {name}:"
    others = {"Without effect": IGNORED, "Rejected": NEVER, "Of Kafka Connect": CHAINS}
    for kind, names in others.items():
        yield from (f"# {kind}: {names[name]}.\n# {name}:" for name in names if wanted in name)
    for name in sorted(SECURITY.union(*BY_ROLE.values())):
        if wanted in name:
            roles = [role for role, known in BY_ROLE.items() if name in known]
            forms = f"A.{name}" + "".join(f", A.{role}.{name}" for role in roles)
            yield f"# A property of Kafka's clients: {forms}.\n# {name}:"


def _entry(key: ConfigKey) -> str:
    """Returns a comment with what there is to know, and the key with its default."""
    facts = [
        key.meaning,
        f"one of {', '.join(key.choices)}" if key.kind in ("choice", "class") else "",
        _classes(key),
        _bounds(key),
        f"sets {key.effect[1]} of {key.effect[0]}" if key.effect else "",
        key.mm2,
        "accepted, but not implemented in this version" if key.since == "later" else "",
        "read anew each turn" if key.is_reloadable else "",
    ]
    comment = textwrap.fill(
        " ".join(f"{fact[0].upper()}{fact[1:]}." for fact in facts if fact),
        WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_on_hyphens=False,
    )
    listed = ", ".join(f"'{item}'" for item in items(key.default))
    value = f"[{listed}]" if key.kind in ("names", "patterns", "choices") else key.default
    if not key.default:
        return f"{comment}\n# {key.written}:"
    return f"{comment}\n{key.name}: {f'{value!r}' if value == '.' else value}"


def _classes(key: ConfigKey) -> str:
    if key.kind != "java class":
        return ""
    return f"one of {', '.join(key.choices)}, or a class of yours, whose jar CLIENT_JARS names"


def _bounds(key: ConfigKey) -> str:
    if key.kind != "number":
        return ""
    least = "1, or -1" if key.least < 0 else key.least
    return f"at least {least}; at most {key.most}"


def _without_effect() -> Iterator[str]:
    yield "\n# MirrorMaker 2 keys that are accepted without effect, with the reason:\n"
    prefixes = {f"{start}*": reason for start, reason in IGNORED_PREFIXES.items()}
    for reason in dict.fromkeys([*IGNORED.values(), *prefixes.values()]):
        names = [name for name, why in {**IGNORED, **prefixes}.items() if why == reason]
        yield f"#\n# {reason[0].upper()}{reason[1:]}:\n"
        listed = textwrap.fill(
            " ".join(names),
            WIDTH,
            initial_indent="#   ",
            subsequent_indent="#   ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        yield f"{listed}\n"
    yield "#\n# Keys that Kafka 4.0 removed, and as what they are read:\n"
    yield from (f"#   {name}: {new}\n" for name, new in REMOVED.items())
    yield "#   connectors.x: x (SRM)\n#   workers.x: x, if it is a client property (SRM)\n"
    yield "#\n# Keys that are rejected:\n"
    yield from (f"#   {name}: {reason}\n" for name, reason in NEVER.items())
    yield "#\n# Keys of Kafka Connect that change records, with all that begin with them:\n"
    yield from (f"#   {name}: {reason}\n" for name, reason in CHAINS.items())
