"""What the operator wants, read from flat settings in MirrorMaker 2's key space. Pure.

`parse` checks everything before anything starts and reports all problems at once.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Final, cast

from replication.config.checks import check_bootstrap, check_flow, check_pair, state_dir_uri
from replication.config.flow_values import FlowValues
from replication.config.keys import IDENTITY_POLICY, KEYS
from replication.config.scopes import Scopes, sort_settings
from replication.config.tree import (
    ClusterConfig,
    FlowConfig,
    GroupsConfig,
    HeartbeatsConfig,
    MirrorConfig,
    OffsetSyncsConfig,
    TopicConfigsConfig,
)
from replication.config.values import Diagnostics, Raw
from replication.errors import ConfigError
from replication.mm2.policy import IdentityPolicy, PrefixPolicy
from replication.model import Flow, Location, Mode, OnRewind, Reset, Timestamps

_TOPIC_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._-]+")


def parse(
    file: str,
    settings: Mapping[str, Raw],
    *,
    default_state_dir: str,
    lines: Mapping[str, int] | None = None,
    hidden: Collection[str] = (),
) -> MirrorConfig:
    """Reads flat *settings*.

    Args:
        file: For the messages.
        settings: Full keys to values; a tuple is a list whose items may hold commas.
        default_state_dir: URI or absolute path, where ``state.dir`` is not set.
        lines: Line of *file* for each key, where known.
        hidden: Keys whose values must not be shown, since they came from a reference.

    Raises:
        ConfigError: With every problem there is.
    """
    findings = Diagnostics(lines or {}, hidden)
    scopes = sort_settings(settings, findings)
    flows = tuple(_flow_configs(scopes, findings))
    if scopes.clusters and not flows:
        pair = next(iter(scopes.pairs), Flow("A", "B"))
        findings.problem(f"{pair}.enabled", "no flow is enabled; write true for one at least")
    for one, other in combinations(flows, 2):
        check_pair(one, other, findings)
    state_dir = state_dir_uri(str(scopes.top.get("state.dir") or default_state_dir), findings)
    if findings.problems:
        raise ConfigError(file, findings.problems)
    return MirrorConfig(
        file=file,
        clusters=scopes.clusters,
        state_dir=state_dir,
        flows=flows,
        heartbeats=tuple(_heartbeats(scopes, findings)),
        notes=tuple(findings.notes),
    )


def _flow_configs(scopes: Scopes, findings: Diagnostics) -> Iterator[FlowConfig]:
    for alias in scopes.clusters:
        check_bootstrap(alias, scopes, findings)
    for flow in scopes.pairs:
        values = FlowValues(scopes, flow)
        if values.flag("enabled"):
            config = _flow_config(values, findings)
            check_flow(values, config, findings)
            yield config


def _flow_config(values: FlowValues, findings: Diagnostics) -> FlowConfig:
    source = _cluster_config(values, "source")
    return FlowConfig(
        flow=values.flow,
        topics=values.items("topics"),
        topics_exclude=values.items("topics.exclude"),
        heartbeats_replication_enabled=values.flag("heartbeats.replication.enabled"),
        policy=_policy(values, findings),
        replication_factor=values.number("replication.factor"),
        refresh_topics_enabled=values.flag("refresh.topics.enabled"),
        refresh_topics_interval_seconds=values.number("refresh.topics.interval.seconds"),
        mode=cast("Mode", values.text("replication.mode")),
        realtime_batch_seconds=values.number("replication.realtime.batch.seconds"),
        batch_max_records=values.number("replication.batch.max.records"),
        record_timestamps=cast("Timestamps", values.text("record.timestamps")),
        auto_offset_reset=_reset(values, source.consumer),
        topic_configs=_topic_configs(values),
        offset_syncs=_offset_syncs(values, findings),
        groups=_groups(values),
        source=source,
        target=_cluster_config(values, "target"),
    )


def _cluster_config(values: FlowValues, location: Location) -> ClusterConfig:
    flow = values.flow
    return ClusterConfig(
        alias=flow.source if location == "source" else flow.target,
        consumer=values.client(location, "consumer"),
        producer=values.client(location, "producer"),
        admin=values.client(location, "admin"),
    )


def _topic_configs(values: FlowValues) -> TopicConfigsConfig:
    return TopicConfigsConfig(
        exclude=values.items("config.properties.exclude"),
        defaults_from=cast("Location", values.text("use.defaults.from")),
    )


def _offset_syncs(values: FlowValues, findings: Diagnostics) -> OffsetSyncsConfig:
    enabled = values.flag("emit.offset-syncs.enabled")
    for settings in (values.scopes.by_flow.get(values.flow, {}), values.scopes.top):
        for name in settings:
            if name.startswith("offset-syncs.topic.") and not enabled:
                findings.note(values.key(name), "has no effect: emit.offset-syncs.enabled is false")
    return OffsetSyncsConfig(
        enabled=enabled,
        location=cast("Location", values.text("offset-syncs.topic.location")),
        replication_factor=values.number("offset-syncs.topic.replication.factor"),
        lag_max=values.number("offset.lag.max"),
    )


def _groups(values: FlowValues) -> GroupsConfig:
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


def _heartbeats(scopes: Scopes, findings: Diagnostics) -> Iterator[HeartbeatsConfig]:
    """Of every pair, enabled or not: MirrorMaker 2's rule, for any cluster may become a source."""
    for flow in scopes.pairs:
        values = FlowValues(scopes, flow)
        if values.flag("emit.heartbeats.enabled"):
            side = cast("Location", values.text("heartbeats.topic.location"))
            yield HeartbeatsConfig(
                flow=flow,
                alias=flow.source if side == "source" else flow.target,
                topic=_policy(values, findings).heartbeats_topic(),
                interval_seconds=values.number("emit.heartbeats.interval.seconds"),
                replication_factor=values.number("heartbeats.topic.replication.factor"),
                producer=values.client(side, "producer"),
                admin=values.client(side, "admin"),
            )


def _reset(values: FlowValues, consumer: Mapping[str, str]) -> Reset:
    """The flow's own short key wins, then the consumer's property, then the top-level key."""
    name = "auto.offset.reset"
    own = name in values.scopes.by_flow.get(values.flow, {})
    return cast("Reset", values.text(name) if own else consumer.get(name, values.text(name)))


def _policy(values: FlowValues, findings: Diagnostics) -> PrefixPolicy:
    name = "replication.policy.separator"
    separator = values.text(name)
    if not _TOPIC_CHARACTERS.fullmatch(separator):
        findings.problem(
            values.key(name),
            f"{separator!r} cannot stand in a topic name; write characters of A-Z a-z 0-9 . _ -",
        )
        separator = KEYS[name].default
    custom = values.flag("replication.policy.internal.topic.separator.enabled")
    internal = separator if custom else "."
    if values.text("replication.policy.class") in (IDENTITY_POLICY, "IdentityReplicationPolicy"):
        return IdentityPolicy(separator, internal, source=values.flow.source)
    return PrefixPolicy(separator, internal)
