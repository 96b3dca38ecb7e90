"""Every configuration key, by subject. Pure data.

Most are declared at the fields that have their values. ``conf/reference.yaml`` is generated from
this (`replication.config.reference`). MirrorMaker 2's keys that have no effect here are in
`replication.config.ignored`.
"""

from typing import Final

from replication.config.config_key import NOT_MM2, ConfigKey, keys_of
from replication.config.group_settings import (
    GroupsConfig,
    HeartbeatsConfig,
    OffsetSyncsConfig,
    StateConfig,
)
from replication.config.letter_settings import LettersConfig
from replication.config.metadata_settings import AclsConfig, DeletionsConfig, TopicConfigsConfig
from replication.config.metrics_settings import MetricsConfig
from replication.config.schema_settings import RegistryConfig, SchemasConfig
from replication.config.serve_settings import ServeConfig
from replication.config.state_access import ENGINE
from replication.config.status_settings import StatusConfig
from replication.config.topic_settings import GuardConfig, RecordsConfig, TopicsConfig

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
    "Where a record cannot be copied": keys_of(LettersConfig),
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
