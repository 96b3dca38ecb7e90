"""The configuration's values, checked and complete: what `replication.config.parse` answers. Pure.

Client properties are effective ones in Java's key space: ``bootstrap.servers`` and what the user
set, nothing of ours; a repr masks secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.mm2.filters import NameFilter
from replication.mm2.policy import ReplicationPolicy
from replication.model import Flow, Isolation, Location, Mode, OnRewind, Reset, Timestamps


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One cluster of a flow: the effective properties of each kind of client, in Java's keys."""

    alias: str
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    admin: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsConfig:
    """MirrorMaker 2's offset syncs of a flow. ``lag_max`` counts records between two of them."""

    enabled: bool
    location: Location
    replication_factor: int
    lag_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigsConfig:
    """Topic settings of a flow: which are never copied, and whose defaults a remote topic has."""

    exclude: tuple[str, ...]
    defaults_from: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """Consumer groups of a flow: which, how often, and whether the target's are moved."""

    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    refresh_enabled: bool
    refresh_interval_seconds: int
    checkpoints_enabled: bool
    checkpoints_interval_seconds: int
    replication_factor: int
    sync_enabled: bool
    sync_interval_seconds: int
    sync_on_rewind: OnRewind

    def accepts(self, group: str) -> bool:
        """Whether *group* is one of those to translate."""
        return NameFilter(self.groups, self.groups_exclude).accepts(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatsConfig:
    """Heartbeats of one pair of clusters, be its flow enabled or not.

    ``alias`` is the cluster that gets them; the properties are of its clients.
    """

    flow: Flow
    alias: str
    topic: str
    interval_seconds: int
    replication_factor: int
    producer: Mapping[str, str]
    admin: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """One enabled flow."""

    flow: Flow
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    heartbeats_replication_enabled: bool
    policy: ReplicationPolicy
    replication_factor: int
    refresh_topics_enabled: bool
    refresh_topics_interval_seconds: int
    mode: Mode
    realtime_batch_seconds: int
    batch_max_records: int
    record_timestamps: Timestamps
    auto_offset_reset: Reset
    topic_configs: TopicConfigsConfig
    offset_syncs: OffsetSyncsConfig
    groups: GroupsConfig
    source: ClusterConfig
    target: ClusterConfig

    @property
    def isolation(self) -> Isolation:
        """Which source records the flow sees; Kafka's and MM2's default includes aborted ones."""
        level = self.source.consumer.get("isolation.level", "read_uncommitted")
        return "read_committed" if level == "read_committed" else "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """The whole configuration, checked.

    Args:
        file: As the operator named it.
        clusters: All aliases.
        state_dir: URI of the folder of the Delta tables.
        flows: Every enabled flow, in the order of *clusters*.
        heartbeats: Every pair whose heartbeats are wanted, those of disabled flows too.
        notes: Keys that are accepted and have no effect, one line each; to be said once.
    """

    file: str
    clusters: tuple[str, ...]
    state_dir: str
    flows: tuple[FlowConfig, ...]
    heartbeats: tuple[HeartbeatsConfig, ...]
    notes: tuple[str, ...]
