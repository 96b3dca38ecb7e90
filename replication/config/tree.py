"""The checked and complete configuration, as `replication.config.parse` returns it. Pure.

Client properties are effective ones with Java's keys: ``bootstrap.servers`` and what the user set,
without the mirror's own settings. A repr masks secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication.config.group_settings import (
    GroupsConfig,
    HeartbeatsConfig,
    OffsetSyncsConfig,
    StateConfig,
)
from replication.config.metrics_settings import MetricsConfig, ServeConfig
from replication.config.schema_settings import SchemasConfig
from replication.config.state_access import EngineChoice, StateAccess
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
from replication.mm2.filters import NameFilter
from replication.mm2.policy import CustomClass, CustomPolicy
from replication.model import Chain, Flow, Isolation, Mode
from replication.schemas.values import KnownIds


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


@dataclass(frozen=True, kw_only=True)
class FlowConfig(TopicsConfig, RecordsConfig):
    """One enabled flow."""

    flow: Flow
    source: ClusterConfig
    target: ClusterConfig
    state: StateConfig
    guard: GuardConfig
    letters: DeadLettersConfig
    topic_configs: TopicConfigsConfig
    acls: AclsConfig
    deletions: DeletionsConfig
    offset_syncs: OffsetSyncsConfig
    groups: GroupsConfig
    schemas: SchemasConfig
    schema_ids: KnownIds
    """What is known of them; who reads or writes the table brings it up to date."""
    status: StatusConfig
    source_own_topics: frozenset[str]
    """Topics on the source that flows which write to it keep for themselves: how they are, and
    dead letters."""
    target_letter_topics: frozenset[str]
    """Topics on the target in which flows that write to it keep dead letters."""
    written_by: Mapping[str, Chain] = field(default_factory=dict)
    """What the newest copies of topics were transformed by, where that is not what the file says.
    The file knows none: whoever compares such copies adds it."""

    def shares(self, remote_topic: str) -> bool:
        """Returns whether others also write *remote_topic*: then it is copied at least once."""
        declared = self.aggregate_topics
        return bool(declared) and NameFilter(declared, ()).accepts(remote_topic)

    @property
    def translates(self) -> bool:
        """Whether records get other ids of schemas."""
        return self.schemas.mode == "translate"

    def with_schema_ids(self, topics: Mapping[str, str]) -> dict[str, str]:
        """Returns those of *topics*, with their remote names, whose records carry schema ids.

        A heartbeat begins with zeros, so that it would look like one.
        """
        return {
            topic: remote
            for topic, remote in topics.items()
            if self.schemas.names(topic) and not self.policy.is_heartbeats_topic(topic)
        }

    @property
    def custom_classes(self) -> tuple[CustomClass, ...]:
        policy = self.policy.custom if isinstance(self.policy, CustomPolicy) else None
        filters = (self.topic_filter, self.groups.group_filter, self.topic_configs.setting_filter)
        return tuple(custom for custom in (policy, *filters) if custom is not None)

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
        engine: What reads and writes the tables there.
        mode: That of a process without a flow, which emits heartbeats only.
        flows: The enabled flows, in the order of *clusters*.
        other_flows: Enabled flows whose targets are left to other processes, by
            ``replication.target.clusters``.
        heartbeats: The pairs with heartbeats enabled, pairs of disabled flows included.
        serve: How the view of all flows is served.
        metrics: What the driver itself serves.
        warnings: What may not mean what its author thinks, one line each; logged once.
        notes: Keys that are accepted without effect and the like, one line each; logged once.
    """

    file: str
    clusters: tuple[str, ...]
    state_dir: str
    hadoop: Mapping[str, str]
    engine: EngineChoice
    mode: Mode
    flows: tuple[FlowConfig, ...]
    other_flows: tuple[FlowConfig, ...]
    heartbeats: tuple[HeartbeatsConfig, ...]
    serve: ServeConfig
    metrics: MetricsConfig
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def access(self) -> StateAccess:
        len(self.hadoop)  # an error for a value that is missing
        return StateAccess(self.state_dir, self.hadoop, self.engine)

    @property
    def beats(self) -> dict[str, float]:
        """How often heartbeats are emitted to a cluster, by its alias, in seconds."""
        slowest_first = sorted(self.heartbeats, key=lambda pair: -pair.interval_seconds)
        return {pair.alias: pair.interval_seconds for pair in slowest_first}

    @property
    def names(self) -> tuple[Flow, ...]:
        """What a process runs, for its locks and for stop requests.

        The enabled flows; where none is enabled, the pairs of the heartbeats.
        """
        running = [flow.flow for flow in self.flows] or [pair.flow for pair in self.heartbeats]
        return tuple(running)
