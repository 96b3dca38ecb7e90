"""Every configuration key, by subject. Pure data.

``conf/reference.yaml`` is generated from it (`replication.config.reference`). MirrorMaker 2's keys
that have no effect here are in `replication.config.ignored`.
"""

from typing import Final

from replication.config import group_keys, topic_keys
from replication.config.config_key import ConfigKey

SUBJECTS: Final[dict[str, tuple[ConfigKey, ...]]] = {
    "Clusters and flows": topic_keys.CLUSTERS,
    "Topics and their names": topic_keys.TOPICS,
    "How records are copied": topic_keys.RECORDS,
    "Where a partition cannot go on without losing or repeating records": topic_keys.GUARD,
    "Settings, ACLs and deletion of remote topics": topic_keys.SETTINGS,
    "Offset syncs": group_keys.OFFSET_SYNCS,
    "Consumer groups": group_keys.GROUPS,
    "Heartbeats": group_keys.HEARTBEATS,
    "The Delta tables": group_keys.TABLES,
    "Metrics, and classes of MirrorMaker 2 that cannot be replaced": group_keys.CLASSES,
}

KEYS: Final = {key.name: key for keys in SUBJECTS.values() for key in keys}
REPLICATION_FACTORS: Final = tuple(name for name in KEYS if name.endswith("replication.factor"))
