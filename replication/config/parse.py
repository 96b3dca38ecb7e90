"""Turns flat settings in MirrorMaker 2's key space into the configuration tree. Pure.

`parse` checks everything before anything starts, and reports all problems at once.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final, cast, get_args

from replication.config.checks import check_clusters, check_flow, check_state_dir
from replication.config.field_keys import TARGETS
from replication.config.flow_conflicts import check_flows
from replication.config.flow_values import FlowValues
from replication.config.hadoop import hadoop_properties, note_unused
from replication.config.keys import KEYS
from replication.config.scopes import sort_settings
from replication.config.tree import (
    AclsConfig,
    ClusterConfig,
    DeletionsConfig,
    FlowConfig,
    GroupsConfig,
    GuardConfig,
    HeartbeatsConfig,
    MirrorConfig,
    OffsetSyncsConfig,
    StateConfig,
    TopicConfigsConfig,
)
from replication.config.values import Diagnostics, Raw, read, text
from replication.errors import ConfigError
from replication.mm2.policy import IdentityPolicy, PrefixPolicy
from replication.model import (
    GuardCause,
    GuardPolicy,
    Location,
    Mode,
    OnRewind,
    Reset,
    Timestamps,
)

TARGETS_OPTION: Final = "--clusters"
MODE: Final = KEYS["replication.mode"]


def parse(
    file: str,
    settings: Mapping[str, Raw],
    *,
    default_state_dir: str,
    lines: Mapping[str, int] | None = None,
    hidden: Collection[str] = (),
    targets: str = "",
) -> MirrorConfig:
    """The configuration that flat *settings* describe.

    Args:
        file: The file's name, for messages.
        settings: Full key -> value; a tuple is a list whose items may contain commas.
        default_state_dir: URI or absolute path, used if ``state.dir`` is not set.
        lines: Key -> line in *file*, where known.
        hidden: Keys whose values must not be shown, because they came from a reference.
        targets: If not empty, it takes the place of ``replication.target.clusters``.

    Raises:
        ConfigError: Lists every problem found.
    """
    diagnostics = Diagnostics(lines or {}, hidden)
    if targets:
        settings = {**settings, TARGETS: targets}
        diagnostics.written[TARGETS] = TARGETS_OPTION
    scopes = sort_settings(diagnostics, settings)
    check_clusters(diagnostics, scopes)
    pairs = [FlowValues(scopes, flow) for flow in scopes.pairs]
    flows = _flow_configs(diagnostics, pairs)
    chosen = {values.flow for values in pairs if values.is_chosen}
    state_dir = text(scopes.top.get("state.dir", "")).strip() or default_state_dir
    check_state_dir(diagnostics, state_dir)
    note_unused(diagnostics, scopes.top, state_dir)
    if diagnostics.problems:
        raise ConfigError(file, diagnostics.problems)
    return MirrorConfig(
        file=file,
        clusters=scopes.clusters,
        state_dir=PurePosixPath(state_dir).as_uri() if state_dir.startswith("/") else state_dir,
        hadoop=hadoop_properties(scopes.top),
        mode=cast("Mode", read(MODE, scopes.top.get(MODE.name, MODE.default))),
        flows=tuple(flow for flow in flows if flow.flow in chosen),
        other_flows=tuple(flow for flow in flows if flow.flow not in chosen),
        # For disabled flows too, as in MirrorMaker 2: any cluster may become a source.
        heartbeats=tuple(
            _heartbeats_config(values)
            for values in pairs
            if values.flag("emit.heartbeats.enabled") and values.is_chosen
        ),
        warnings=tuple(diagnostics.warnings),
        notes=tuple(diagnostics.notes),
    )


def _flow_configs(diagnostics: Diagnostics, pairs: Iterable[FlowValues]) -> tuple[FlowConfig, ...]:
    """The enabled ones among *pairs*, checked against each other.

    One by one those are checked that this process may run; all pairs if there are none.
    """
    pairs = list(pairs)
    enabled = [values for values in pairs if values.flag("enabled")]
    for values in [values for values in enabled if values.is_chosen] or pairs:
        check_flow(diagnostics, values)
    flows = tuple(_flow_config(values) for values in enabled)
    check_flows(diagnostics, flows)
    return flows


def _flow_config(values: FlowValues) -> FlowConfig:
    source = _cluster_config(values, "source")
    return FlowConfig(
        flow=values.flow,
        topics=values.items("topics"),
        topics_exclude=values.items("topics.exclude"),
        heartbeats_replication_enabled=values.flag("heartbeats.replication.enabled"),
        policy=_policy(values),
        aggregate_topics=values.items("replication.aggregate.topics"),
        replication_factor=values.number("replication.factor"),
        refresh_topics_enabled=values.flag("refresh.topics.enabled"),
        refresh_topics_interval_seconds=values.number("refresh.topics.interval.seconds"),
        mode=cast("Mode", values.text("replication.mode")),
        realtime_batch_seconds=values.number("replication.realtime.batch.seconds"),
        batch_max_records=values.number("replication.batch.max.records"),
        takeover_topic=values.text("replication.takeover.topic").strip(),
        allow_no_topics=values.flag("replication.drain.empty.allowed"),
        record_timestamps=cast("Timestamps", values.text("record.timestamps")),
        has_provenance=values.flag("replication.provenance.header.enabled"),
        auto_offset_reset=_reset(values, source.consumer),
        state=_state_config(values),
        guard=_guard_config(values),
        topic_configs=_topic_configs_config(values),
        acls=_acls_config(values),
        deletions=DeletionsConfig(
            enabled=values.flag("replication.deletions.enabled"),
            grace_seconds=values.number("replication.deletions.grace.seconds"),
        ),
        offset_syncs=_offset_syncs_config(values),
        groups=_groups_config(values),
        source=source,
        target=_cluster_config(values, "target"),
    )


def _cluster_config(values: FlowValues, location: Location) -> ClusterConfig:
    expected_id = values.text(f"replication.{location}.cluster.id").strip()
    return ClusterConfig(
        expected_id=expected_id,
        alias=values.alias(location),
        consumer=values.client(location, "consumer"),
        producer=values.client(location, "producer"),
        admin=values.client(location, "admin"),
    )


def _state_config(values: FlowValues) -> StateConfig:
    return StateConfig(
        write_interval_seconds=values.number("state.write.interval.seconds"),
        retention_days={
            table: values.number(f"state.{table}.retention.days")
            for table in ("events", "checkpoints", "leases")
        },
    )


def _guard_config(values: FlowValues) -> GuardConfig:
    causes: tuple[GuardCause, ...] = get_args(GuardCause)
    return GuardConfig(
        topics=values.items("replication.guard.topics"),
        policies={
            cause: cast("GuardPolicy", values.text(f"replication.guard.{cause}"))
            for cause in causes
        },
    )


def _topic_configs_config(values: FlowValues) -> TopicConfigsConfig:
    return TopicConfigsConfig(
        exclude=values.items("config.properties.exclude"),
        defaults_from=cast("Location", values.text("use.defaults.from")),
        sync_enabled=values.flag("sync.topic.configs.enabled"),
        sync_interval_seconds=values.number("sync.topic.configs.interval.seconds"),
    )


def _acls_config(values: FlowValues) -> AclsConfig:
    return AclsConfig(
        sync_enabled=values.flag("sync.topic.acls.enabled"),
        sync_interval_seconds=values.number("sync.topic.acls.interval.seconds"),
        prefixed=values.flag("replication.acls.prefixed.enabled"),
        removal=values.flag("replication.acls.removal.enabled"),
    )


def _offset_syncs_config(values: FlowValues) -> OffsetSyncsConfig:
    return OffsetSyncsConfig(
        enabled=values.flag("emit.offset-syncs.enabled"),
        location=cast("Location", values.text("offset-syncs.topic.location")),
        replication_factor=values.number("offset-syncs.topic.replication.factor"),
        lag_max=values.number("offset.lag.max"),
    )


def _groups_config(values: FlowValues) -> GroupsConfig:
    return GroupsConfig(
        groups=values.items("groups"),
        groups_exclude=values.items("groups.exclude"),
        refresh_enabled=values.flag("refresh.groups.enabled"),
        refresh_interval_seconds=values.number("refresh.groups.interval.seconds"),
        checkpoints_enabled=values.flag("emit.checkpoints.enabled"),
        checkpoints_interval_seconds=values.number("emit.checkpoints.interval.seconds"),
        replication_factor=values.number("checkpoints.topic.replication.factor"),
        sync_enabled=values.flag("sync.group.offsets.enabled"),
        sync_interval_seconds=values.number("sync.group.offsets.interval.seconds"),
        sync_on_rewind=cast("OnRewind", values.text("sync.group.offsets.on.rewind")),
    )


def _heartbeats_config(values: FlowValues) -> HeartbeatsConfig:
    location = cast("Location", values.text("heartbeats.topic.location"))
    return HeartbeatsConfig(
        flow=values.flow,
        alias=values.alias(location),
        topic=_policy(values).heartbeats_topic(),
        interval_seconds=values.number("emit.heartbeats.interval.seconds"),
        replication_factor=values.number("heartbeats.topic.replication.factor"),
        producer=values.client(location, "producer"),
        admin=values.client(location, "admin"),
    )


def _reset(values: FlowValues, consumer: Mapping[str, str]) -> Reset:
    """The flow's own short key wins, then the consumer's property, then the top-level key."""
    name = "auto.offset.reset"
    given = values.text(name) if name in values.own else consumer.get(name, values.text(name))
    return cast("Reset", given)


def _policy(values: FlowValues) -> PrefixPolicy:
    separator = values.text("replication.policy.separator")
    is_internal = values.flag("replication.policy.internal.topic.separator.enabled")
    internal = separator if is_internal else "."
    if values.is_identity:
        return IdentityPolicy(separator, internal, source=values.flow.source)
    return PrefixPolicy(separator, internal)
