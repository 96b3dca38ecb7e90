"""What the operator wants, read from flat settings in MirrorMaker 2's key space. Pure.

`parse` checks everything before anything starts and reports all problems at once.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from typing import Final, cast

from replication.config.client_properties import Side, effective
from replication.config.clients.java_keys import Role
from replication.config.clients.librdkafka import convert
from replication.config.keys import IDENTITY_POLICY, KEYS
from replication.config.scopes import Scopes, sort_settings
from replication.config.tree import (
    FlowConfig,
    GroupsConfig,
    HeartbeatsConfig,
    MirrorConfig,
    OffsetSyncsConfig,
    OnRewind,
)
from replication.config.values import Findings, Raw, Value, ValueMisfitError, read
from replication.errors import ConfigError
from replication.mm2.filters import NameFilter
from replication.mm2.policy import IdentityPolicy, PrefixPolicy
from replication.model import Flow, Mode, Reset, Timestamps

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_TOPIC_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._-]+")
_CONTROL_ROLES: Final[tuple[Role, ...]] = ("admin", "consumer")  # through librdkafka
_SIDES: Final[tuple[Side, ...]] = ("source", "target")


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
    findings = Findings(lines or {}, hidden)
    scopes = sort_settings(settings, findings)
    flows = tuple(_flow_configs(scopes, findings))
    if scopes.clusters and not flows:
        pair = next(iter(scopes.pairs), Flow("A", "B"))
        findings.problem(f"{pair}.enabled", "no flow is enabled; write true for one at least")
    for one, other in combinations(flows, 2):
        _check_pair(one, other, findings)
    state_dir = _state_dir(str(scopes.top.get("state.dir") or default_state_dir), findings)
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


@dataclass(frozen=True, slots=True)
class _FlowValues:
    """A flow's own values, the top level's or the defaults, in this order."""

    scopes: Scopes
    flow: Flow

    def value(self, name: str) -> Value:
        for settings in (self.scopes.by_flow.get(self.flow, {}), self.scopes.top):
            if name in settings:
                try:
                    return read(KEYS[name], settings[name])
                except ValueMisfitError:  # reported where the key was sorted
                    break
        return read(KEYS[name], KEYS[name].default)

    def flag(self, name: str) -> bool:
        return cast("bool", self.value(name))

    def number(self, name: str) -> int:
        return cast("int", self.value(name))

    def text(self, name: str) -> str:
        return cast("str", self.value(name))

    def items(self, name: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.value(name))

    def key(self, name: str) -> str:
        """The key as it stands in the file, for a message."""
        return f"{self.flow}.{name}" if name in self.scopes.by_flow.get(self.flow, {}) else name

    def client(self, side: Side, role: Role) -> Mapping[str, str]:
        alias = self.flow.source if side == "source" else self.flow.target
        return effective(
            self.scopes.top,
            self.scopes.by_cluster[alias],
            self.scopes.by_flow.get(self.flow, {}),
            side=side,
            role=role,
        )


def _flow_configs(scopes: Scopes, findings: Findings) -> Iterator[FlowConfig]:
    for alias in scopes.clusters:
        _check_bootstrap(alias, scopes, findings)
    for flow in scopes.pairs:
        values = _FlowValues(scopes, flow)
        if values.flag("enabled"):
            config = _flow_config(values, findings)
            _check_flow(values, config, findings)
            yield config


def _flow_config(values: _FlowValues, findings: Findings) -> FlowConfig:
    consumer = values.client("source", "consumer")
    return FlowConfig(
        flow=values.flow,
        enabled=True,
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
        auto_offset_reset=_reset(values, consumer),
        offset_syncs=_offset_syncs(values, findings),
        groups=_groups(values),
        source_consumer=consumer,
        source_producer=values.client("source", "producer"),
        source_admin=values.client("source", "admin"),
        target_consumer=values.client("target", "consumer"),
        target_producer=values.client("target", "producer"),
        target_admin=values.client("target", "admin"),
    )


def _offset_syncs(values: _FlowValues, findings: Findings) -> OffsetSyncsConfig:
    enabled = values.flag("emit.offset-syncs.enabled")
    for settings in (values.scopes.by_flow.get(values.flow, {}), values.scopes.top):
        for name in settings:
            if name.startswith("offset-syncs.topic.") and not enabled:
                findings.note(values.key(name), "has no effect: emit.offset-syncs.enabled is false")
    return OffsetSyncsConfig(
        enabled=enabled,
        location=cast("Side", values.text("offset-syncs.topic.location")),
        replication_factor=values.number("offset-syncs.topic.replication.factor"),
        lag_max=values.number("offset.lag.max"),
    )


def _groups(values: _FlowValues) -> GroupsConfig:
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


def _heartbeats(scopes: Scopes, findings: Findings) -> Iterator[HeartbeatsConfig]:
    """Of every pair, enabled or not: MirrorMaker 2's rule, for any cluster may become a source."""
    for flow in scopes.pairs:
        values = _FlowValues(scopes, flow)
        if values.flag("emit.heartbeats.enabled"):
            side = cast("Side", values.text("heartbeats.topic.location"))
            yield HeartbeatsConfig(
                flow=flow,
                alias=flow.source if side == "source" else flow.target,
                topic=_policy(values, findings).heartbeats_topic(),
                interval_seconds=values.number("emit.heartbeats.interval.seconds"),
                replication_factor=values.number("heartbeats.topic.replication.factor"),
                producer=values.client(side, "producer"),
                admin=values.client(side, "admin"),
            )


def _reset(values: _FlowValues, consumer: Mapping[str, str]) -> Reset:
    """The flow's own short key wins, then the consumer's property, then the top-level key."""
    name = "auto.offset.reset"
    own = name in values.scopes.by_flow.get(values.flow, {})
    return cast("Reset", values.text(name) if own else consumer.get(name, values.text(name)))


def _policy(values: _FlowValues, findings: Findings) -> PrefixPolicy:
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


def _check_bootstrap(alias: str, scopes: Scopes, findings: Findings) -> None:
    if "bootstrap.servers" not in scopes.by_cluster[alias]:
        findings.problem(
            f"{alias}.bootstrap.servers", "missing; write for example broker-1:9092,broker-2:9092"
        )


def _check_flow(values: _FlowValues, config: FlowConfig, findings: Findings) -> None:
    if not config.topics:
        findings.problem(
            values.key("topics"),
            "is empty; give at least one name or regex, '.*' takes every topic",
        )
    for side, alias in zip(_SIDES, (config.flow.source, config.flow.target), strict=True):
        if _wants_gssapi(values.client(side, "admin")):
            findings.note(
                f"{alias}.sasl.mechanism",
                "GSSAPI needs a confluent-kafka built with it; PyPI's wheel has none",
            )
        for role in _CONTROL_ROLES:
            for problem in convert(values.client(side, role))[1]:
                key, _, text = problem.partition(": ")
                findings.problem(f"{alias}.{key}", text)


def _wants_gssapi(java: Mapping[str, str]) -> bool:
    """Whether the client would use Kerberos: Kafka's default where SASL names no mechanism."""
    sasl = java.get("security.protocol", "").upper().startswith("SASL_")
    return sasl and java.get("sasl.mechanism", "GSSAPI").upper() == "GSSAPI"


def _check_pair(one: FlowConfig, other: FlowConfig, findings: Findings) -> None:
    """Two flows that would write the same topics, or that would feed each other for ever."""
    if not (isinstance(one.policy, IdentityPolicy) and isinstance(other.policy, IdentityPolicy)):
        return
    a, b = one.flow, other.flow
    if a.target == b.target:
        if both := _shared_names(one, other):
            findings.problem(
                f"{b}.topics",
                f"{', '.join(both)} would be written by {a} too, and a topic has one writer; "
                f"put it into {b}.topics.exclude",
            )
    elif (a.source, a.target) == (b.target, b.source):
        shared = set(one.topics) & set(other.topics)
        if both := sorted({*_shared_names(one, other), *shared}):
            findings.problem(
                f"{b}.topics",
                f"{', '.join(both)} would go from {a} back to {a.source} and round for ever under "
                f"IdentityReplicationPolicy; put it into {b}.topics.exclude",
            )


def _shared_names(one: FlowConfig, other: FlowConfig) -> list[str]:
    """Topic names, written out in one flow's list, that both flows take."""
    names = {item for item in (*one.topics, *other.topics) if _TOPIC_CHARACTERS.fullmatch(item)}
    filters = [NameFilter(flow.topics, flow.topics_exclude) for flow in (one, other)]
    return sorted(name for name in names if all(filter_.accepts(name) for filter_ in filters))


def _state_dir(given: str, findings: Findings) -> str:
    if given.startswith("/"):
        return PurePosixPath(given).as_uri()
    if not _URI.fullmatch(given):
        findings.problem(
            "state.dir", f"{given!r} is relative; write an absolute path or a URI such as s3a://.."
        )
    return given
