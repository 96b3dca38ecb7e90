"""Turns flat settings in MirrorMaker 2's key space into the configuration tree. Pure.

`parse` checks everything before anything starts, and reports all problems at once.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar, cast, get_type_hints

from replication.config.checks import check_clusters, check_flow, check_flows, check_state_dir
from replication.config.client_keys import is_secret
from replication.config.config_key import ConfigKey, Keys, declared_keys
from replication.config.field_keys import TARGETS
from replication.config.group_settings import HeartbeatsConfig
from replication.config.keys import KEYS
from replication.config.metrics_settings import (
    MetricsConfig,
    ServeConfig,
    metrics_problem,
    metrics_warnings,
    serve_problems,
)
from replication.config.schema_settings import REGISTRY_KEYS, RegistryConfig, registry_of
from replication.config.scopes import FlowValues, sort_settings
from replication.config.state_access import ENGINE, EngineChoice, hadoop_properties, note_unused
from replication.config.topic_settings import LETTERS, LETTERS_TOPIC, MODE, STATUS_TOPIC, TASKS_MAX
from replication.config.transforms import read_transforms
from replication.config.tree import ClusterConfig, FlowConfig, MirrorConfig
from replication.config.values import (
    Diagnostics,
    InvalidValueError,
    MissingRaw,
    MissingValue,
    MissingValueError,
    Raw,
    known,
    read,
    text,
)
from replication.errors import ConfigError
from replication.mm2.policy import (
    GROUP_FILTER,
    POLICY,
    SETTING_FILTER,
    TOPIC_FILTER,
    CustomClass,
    CustomPolicy,
    IdentityPolicy,
    PrefixPolicy,
    ReplicationPolicy,
)
from replication.model import Location, Mode
from replication.schemas.values import KnownIds

TARGETS_OPTION: Final = "--clusters"
_FINDS_FLOWS: Final = re.compile(
    r"clusters|replication\.target\.clusters|(.*->.*\.)?(emit\.heartbeats\.)?enabled"
)
"""Keys without whose values nobody knows which flows there are."""
Section = TypeVar("Section")


def parse(
    file: str,
    settings: Mapping[str, Raw],
    *,
    default_state_dir: str,
    lines: Mapping[str, int] | None = None,
    hidden: Collection[str] = (),
    unresolved: Collection[str] = (),
    targets: str = "",
) -> MirrorConfig:
    """Returns the configuration that flat *settings* describe.

    Args:
        file: The file's name, for messages.
        settings: Full key -> value; a tuple is a list whose items may contain commas.
        default_state_dir: URI or absolute path, used if ``state.dir`` is not set.
        lines: Key -> line in *file*, where known.
        hidden: Keys whose values must not be shown, because they came from a reference.
        unresolved: Keys whose values are `MissingRaw`. So are the fields that follow from them.
        targets: If not empty, it takes the place of ``replication.target.clusters``.

    Raises:
        ConfigError: Lists every problem found, or is that of a missing value without which nobody
            knows which flows there are.
    """
    diagnostics = Diagnostics(lines or {}, hidden, unresolved=unresolved)
    if targets:
        settings = {**settings, TARGETS: targets}
        diagnostics.written[TARGETS] = TARGETS_OPTION
    for key, raw in settings.items():
        if _FINDS_FLOWS.fullmatch(key):
            known(raw)
    scopes = sort_settings(diagnostics, settings)
    check_clusters(diagnostics, scopes)
    pairs = [FlowValues(scopes, flow) for flow in scopes.pairs]
    enabled = [values for values in pairs if values.flag("enabled")]
    # one by one those that this process may run; all pairs if there are none
    for values in [values for values in enabled if values.is_chosen] or pairs:
        check_flow(diagnostics, values)
    flows = tuple(_section(FlowConfig, values) for values in enabled)
    with suppress(MissingValueError):  # then nobody knows whether they agree
        check_flows(diagnostics, flows)
    chosen = {values.flow for values in pairs if values.is_chosen}
    given_dir = scopes.top.get("state.dir") or default_state_dir
    state_dir = text(given_dir).strip() or default_state_dir
    check_state_dir(diagnostics, state_dir)
    note_unused(diagnostics, scopes.top, state_dir)
    if state_dir.startswith("/"):
        state_dir = PurePosixPath(state_dir).as_uri()
    serve = _top_section(ServeConfig, scopes.top)
    with suppress(MissingValueError):
        for key, problem in serve_problems(serve):
            diagnostics.problem(key, problem)
    metrics = _top_section(MetricsConfig, scopes.top)
    with suppress(MissingValueError):
        if (address_problem := metrics_problem(metrics)) is not None:
            diagnostics.problem("metrics.listen", address_problem)
        else:
            for key, warning in metrics_warnings(metrics):
                diagnostics.warning(key, warning)
    if diagnostics.problems:
        raise ConfigError(file, diagnostics.problems)
    return MirrorConfig(
        file=file,
        clusters=scopes.clusters,
        state_dir=_or_missing(lambda: known(given_dir) and state_dir),
        hadoop=_or_missing(lambda: hadoop_properties(scopes.top)),
        engine=cast("EngineChoice", _top_value(ENGINE, scopes.top)),
        mode=cast("Mode", _top_value(MODE, scopes.top)),
        flows=tuple(flow for flow in flows if flow.flow in chosen),
        other_flows=tuple(flow for flow in flows if flow.flow not in chosen),
        # those of disabled flows too, as MirrorMaker 2: any cluster may become a source
        heartbeats=tuple(
            _section(HeartbeatsConfig, values)
            for values in pairs
            if values.flag("emit.heartbeats.enabled") and values.is_chosen
        ),
        serve=serve,
        metrics=metrics,
        warnings=tuple(diagnostics.warnings),
        notes=tuple(diagnostics.notes),
    )


def _section(kind: type[Section], values: FlowValues) -> Section:
    """Returns *kind* with each field read from its key, or derived."""
    hints = get_type_hints(kind)

    values = replace(values, refuses_missing=True)

    def found(name: str, keys: Sequence[ConfigKey | Keys]) -> object:
        if (derive := _DERIVED.get(name)) is not None:
            return _or_missing(lambda: derive(values))
        if not keys:
            return _section(hints[name], values)
        return _or_missing(lambda: _value(keys[0], values))

    return kind(**{name: found(name, keys) for name, keys in declared_keys(kind).items()})


def _top_section(kind: type[Section], top: Mapping[str, Raw]) -> Section:
    """Returns an object of *kind*, whose keys are of the file, not of a flow."""
    found = {}
    for name, declared in declared_keys(kind).items():
        value = _top_value(cast("ConfigKey", declared[0]), top)
        found[name] = value.strip() if isinstance(value, str) else value
    return kind(**found)


def _top_value(key: ConfigKey, top: Mapping[str, Raw]) -> object:
    if isinstance(raw := top.get(key.name, key.default), MissingRaw):
        return MissingValue(raw.error)
    try:
        return read(key, raw)
    except InvalidValueError:  # reported when the settings were sorted into scopes
        return read(key, key.default)


def _or_missing(value: Callable[[], Any]) -> Any:  # noqa: ANN401 - any field's
    try:
        return value()
    except MissingValueError as error:
        return MissingValue(error)


def _value(declared: ConfigKey | Keys, values: FlowValues) -> object:
    if not isinstance(declared, ConfigKey):
        return {name: _value(key, values) for name, key in declared.items()}
    value = values.value(declared.name)
    return value.strip() if isinstance(value, str) else value


def _cluster_config(values: FlowValues, location: Location) -> ClusterConfig:
    return ClusterConfig(
        expected_id=values.text(f"replication.{location}.cluster.id").strip(),
        alias=values.alias(location),
        consumer=values.client(location, "consumer"),
        producer=values.client(location, "producer"),
        admin=values.client(location, "admin"),
    )


def _heartbeats_at(values: FlowValues) -> Location:
    return cast("Location", values.text("heartbeats.topic.location"))


def _custom(values: FlowValues, name: str) -> CustomClass | None:
    """Returns the user's class that the key *name* gives, with the settings that it may read."""
    given = values.text(name)
    if given in KEYS[name].choices:
        return None
    settings = {**values.scopes.top, **values.own}
    properties = {key: text(raw) for key, raw in settings.items() if not is_secret(key)}
    properties |= {
        "source.cluster.alias": values.flow.source,
        "target.cluster.alias": values.flow.target,
    }
    return CustomClass(values.key(name), given, tuple(sorted(properties.items())))


def _tasks_max(values: FlowValues) -> int | None:
    """Returns None where the file says nothing: the number follows from the cores."""
    with suppress(InvalidValueError):  # reported when the settings were sorted into scopes
        if (given := values.given(TASKS_MAX.name)) is not None:
            return cast("int", read(TASKS_MAX, given))
    return None


def _policy(values: FlowValues) -> ReplicationPolicy:
    if (custom := _custom(values, POLICY)) is not None:
        return CustomPolicy(custom)
    separator = values.text("replication.policy.separator")
    is_internal = values.flag("replication.policy.internal.topic.separator.enabled")
    internal = separator if is_internal else "."
    if values.is_identity:
        return IdentityPolicy(separator, internal, source=values.flow.source)
    return PrefixPolicy(separator, internal)


def _registry(values: FlowValues, alias: str) -> RegistryConfig:
    settings = values.scopes.by_cluster[alias]
    return registry_of({key: known(settings[key]) for key in REGISTRY_KEYS if key in settings})


def _status_topic(values: FlowValues) -> str:
    """Returns Connect's default where the file says nothing: always with dots, as in MM2."""
    is_given = values.given(STATUS_TOPIC) is not None
    name = values.text(STATUS_TOPIC).strip()
    return name if is_given else f"mm2-status.{values.flow.source}.internal"


def _letters_topic(values: FlowValues) -> str:
    name = values.text(LETTERS_TOPIC).strip()
    return name or f"{values.flow.source}.dead-letters.internal"


def _source_own_topics(values: FlowValues) -> frozenset[str]:
    names = map(_status_topic, _writers(values, values.flow.source))
    letters = _letter_topics(values, values.flow.source)
    return letters | frozenset(name for name in names if name)


def _letter_topics(values: FlowValues, alias: str) -> frozenset[str]:
    """Returns the topics on the cluster *alias* in which flows keep dead letters."""
    writers = _writers(values, alias)
    return frozenset(_letters_topic(one) for one in writers if one.text(LETTERS) == "topic")


def _writers(values: FlowValues, alias: str) -> list[FlowValues]:
    scopes = values.scopes
    return [replace(values, flow=pair) for pair in scopes.pairs if pair.target == alias]


_DERIVED: Final[Mapping[str, Callable[[FlowValues], object]]] = {
    "flow": lambda values: values.flow,
    "policy": _policy,
    "tasks_max": _tasks_max,
    "written_by": lambda _values: {},
    "transforms": lambda values: read_transforms(*values.transform_settings).transforms,
    "limits": lambda values: values.limits.limits,
    "topic_filter": lambda values: _custom(values, TOPIC_FILTER),
    "group_filter": lambda values: _custom(values, GROUP_FILTER),
    "setting_filter": lambda values: _custom(values, SETTING_FILTER),
    "storage_topic": _status_topic,
    "letters_topic": _letters_topic,
    "source_own_topics": _source_own_topics,
    "target_letter_topics": lambda values: _letter_topics(values, values.flow.target),
    "schema_ids": lambda _: KnownIds(),
    "source_registry": lambda values: _registry(values, values.flow.source),
    "target_registry": lambda values: _registry(values, values.flow.target),
    "source": lambda values: _cluster_config(values, "source"),
    "target": lambda values: _cluster_config(values, "target"),
    "alias": lambda values: values.alias(_heartbeats_at(values)),
    "producer": lambda values: values.client(_heartbeats_at(values), "producer"),
    "admin": lambda values: values.client(_heartbeats_at(values), "admin"),
}
"""The fields that are not just the value of a key."""
