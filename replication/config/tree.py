"""The checked and complete configuration, as `replication.config.parse` returns it. Pure.

Client properties are effective ones with Java's keys: ``bootstrap.servers`` and what the user set,
without the mirror's own settings. A repr masks secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replication.mm2.filters import NameFilter
from replication.mm2.policy import ReplicationPolicy
from replication.model import (
    Flow,
    GuardCause,
    GuardPolicy,
    Isolation,
    Location,
    Mode,
    OnRewind,
    Reset,
    Timestamps,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """One cluster of a flow, with the effective properties of each kind of client.

    ``expected_id`` is the id that the file gives for it, "" if it gives none.
    """

    alias: str
    consumer: Mapping[str, str]
    producer: Mapping[str, str]
    admin: Mapping[str, str]
    expected_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsConfig:
    """A flow's offset syncs for MirrorMaker 2. ``lag_max`` is the distance of two, in records."""

    enabled: bool
    location: Location
    replication_factor: int
    lag_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateConfig:
    """A flow's rows in the Delta tables: how often the map is written, how long others are kept.

    ``retention_days`` has the tables whose rows are deleted with age.
    """

    write_interval_seconds: int
    retention_days: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigsConfig:
    """A flow's topic configs: which are copied, whose defaults apply, and how often to compare."""

    exclude: tuple[str, ...]
    defaults_from: Location
    sync_enabled: bool
    sync_interval_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsConfig:
    """A flow's topic ACLs: whether they are copied, which, how often, and whether also removed."""

    sync_enabled: bool
    sync_interval_seconds: int
    prefixed: bool
    removal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionsConfig:
    """Whether a deleted topic's remote topic is deleted, too, and how much later."""

    enabled: bool
    grace_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """A flow's consumer groups: which to translate, how often, and whether to commit."""

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
        """Whether *group* is to be translated."""
        return NameFilter(self.groups, self.groups_exclude).accepts(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """What a flow does where a partition cannot resume without losing or repeating records.

    The ``policies`` are those of ``topics``; every other topic is set aside.
    """

    topics: tuple[str, ...]
    policies: Mapping[GuardCause, GuardPolicy]

    def policy(self, cause: GuardCause, topic: str) -> GuardPolicy:
        """What to do with a partition of *topic*."""
        return self.policies[cause] if NameFilter(self.topics, ()).accepts(topic) else "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatsConfig:
    """Heartbeats for one pair of clusters, whether its flow is enabled or not.

    ``alias`` is the cluster that receives them; the properties are those of its clients.
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
    aggregate_topics: tuple[str, ...]
    replication_factor: int
    refresh_topics_enabled: bool
    refresh_topics_interval_seconds: int
    mode: Mode
    realtime_batch_seconds: int
    batch_max_records: int
    allow_no_topics: bool
    takeover_topic: str
    record_timestamps: Timestamps
    has_provenance: bool
    auto_offset_reset: Reset
    state: StateConfig
    guard: GuardConfig
    topic_configs: TopicConfigsConfig
    acls: AclsConfig
    deletions: DeletionsConfig
    offset_syncs: OffsetSyncsConfig
    groups: GroupsConfig
    source: ClusterConfig
    target: ClusterConfig

    def shares(self, remote_topic: str) -> bool:
        """Whether others write *remote_topic*, too, so that records are copied at least once."""
        declared = self.aggregate_topics
        return bool(declared) and NameFilter(declared, ()).accepts(remote_topic)

    @property
    def isolation(self) -> Isolation:
        """Whether aborted records are replicated; by default they are, as in Kafka and MM2."""
        level = self.source.consumer.get("isolation.level", "read_uncommitted")
        return "read_committed" if level == "read_committed" else "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """The whole configuration, checked.

    Args:
        file: The file's name, as the operator gave it.
        clusters: All aliases.
        state_dir: URI of the folder of the Delta tables.
        hadoop: Hadoop's properties for *state_dir*, without the prefix ``hadoop.``.
        mode: That of a process without a flow, which emits heartbeats only.
        flows: The enabled flows, in the order of *clusters*.
        other_flows: Enabled flows whose targets are left to other processes, by
            ``replication.target.clusters``.
        heartbeats: The pairs with heartbeats enabled, pairs of disabled flows included.
        warnings: What may not mean what its author thinks, one line each; logged once.
        notes: Keys that are accepted without effect and the like, one line each; logged once.
    """

    file: str
    clusters: tuple[str, ...]
    state_dir: str
    hadoop: Mapping[str, str]
    mode: Mode
    flows: tuple[FlowConfig, ...]
    other_flows: tuple[FlowConfig, ...]
    heartbeats: tuple[HeartbeatsConfig, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[Flow, ...]:
        """What a process runs, for its locks and for stop requests.

        The enabled flows; where none is enabled, the pairs of the heartbeats.
        """
        running = [flow.flow for flow in self.flows] or [pair.flow for pair in self.heartbeats]
        return tuple(running)
