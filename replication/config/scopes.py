"""Sorts flat settings by what they belong to, and finds the keys that belong nowhere. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from replication.config.client_properties import check_property, client_property
from replication.config.clients.java_keys import JAVA_KEYS, SECURITY
from replication.config.ignored import REFUSED, REMOVED, inert_reason
from replication.config.keys import KEYS
from replication.config.values import Diagnostics, Raw, ValueMisfitError, closest, items, read, text
from replication.model import Flow

_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]+")
_ALIAS_KEYS: Final = ("source.cluster.alias", "target.cluster.alias")


@dataclass(frozen=True, slots=True)
class Scopes:
    """The settings, each key without the part that says its scope."""

    clusters: tuple[str, ...]
    top: dict[str, Raw] = field(default_factory=dict)
    by_cluster: dict[str, dict[str, Raw]] = field(default_factory=dict)
    by_flow: dict[Flow, dict[str, Raw]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Flow]:
        """Every flow there could be."""
        return [Flow(source, target) for source, target in permutations(self.clusters, 2)]


def sort_settings(settings: Mapping[str, Raw], findings: Diagnostics) -> Scopes:
    """*settings* by scope. Every key and value on its own is checked on the way."""
    clusters = _clusters(settings, findings)
    scopes = Scopes(clusters, by_cluster={alias: {} for alias in clusters})
    for key, raw in settings.items():
        if "->" in key:
            _sort_flow_key(scopes, findings, key, raw)
        elif key not in KEYS and (alias := _alias_of(key, clusters)) is not None:
            name = key[len(alias) + 1 :]
            scopes.by_cluster[alias][name] = raw
            _check_cluster_key(findings, key, name, raw, clusters)
        else:
            scopes.top[key] = raw
            _check_top_key(findings, key, raw, clusters)
    return scopes


def _clusters(settings: Mapping[str, Raw], findings: Diagnostics) -> tuple[str, ...]:
    raw = settings.get("clusters")
    if raw is None or not items(raw):
        findings.problem("clusters", "missing; list the aliases, such as clusters: [east, west]")
        return ()
    parts = [item.strip() for item in (raw.split(",") if isinstance(raw, str) else raw)]
    for alias in dict.fromkeys(parts):
        if parts.count(alias) > 1:
            findings.problem("clusters", f"{alias!r} is listed twice; remove one")
        if not _ALIAS.fullmatch(alias):
            findings.problem(
                "clusters",
                f"{alias!r} is no alias; it becomes part of topic names: A-Z a-z 0-9 . _ -",
            )
    return tuple(alias for alias in items(raw) if _ALIAS.fullmatch(alias))


def _alias_of(key: str, clusters: Collection[str]) -> str | None:
    found = [alias for alias in clusters if key.startswith(f"{alias}.")]
    return max(found, key=len, default=None)


def _sort_flow_key(scopes: Scopes, findings: Diagnostics, key: str, raw: Raw) -> None:
    source, _, rest = (part.strip() for part in key.partition("->"))
    target = _alias_of(rest, scopes.clusters)
    unknown = [alias for alias in (source,) if alias not in scopes.clusters]
    if target is None:
        unknown.append(rest.partition(".")[0])
    if unknown:
        for alias in unknown:
            findings.problem(key, _unknown_alias(alias, scopes.clusters))
        return
    name = rest[len(target or "") + 1 :]
    if source == target:
        findings.problem(key, f"source and target are both {source!r}; name two clusters")
        return
    flow = Flow(source, target or "")
    scopes.by_flow.setdefault(flow, {})[name] = raw
    _check_flow_key(findings, key, name, raw, flow)


def _unknown_alias(alias: str, clusters: Collection[str]) -> str:
    other = closest(alias, clusters, 0.6)
    hint = f"; did you mean {other!r}?" if other else ""
    listed = ", ".join(clusters) or "nothing"
    return f"{alias!r} is no cluster, clusters lists {listed}{hint}"


def _check_top_key(findings: Diagnostics, key: str, raw: Raw, clusters: Collection[str]) -> None:
    if key == "config.providers" or key.startswith("config.providers."):
        return
    if key in SECURITY:
        check_property(findings, key, None, key, raw)
    elif key in JAVA_KEYS and inert_reason(key) is None and key not in KEYS:
        findings.problem(key, f"belongs to a cluster; write {next(iter(clusters), 'A')}.{key}")
    elif not _check_own_key(findings, key, key, raw, "top"):
        alias, _, rest = key.partition(".")
        if rest and (rest in JAVA_KEYS or (client_property(rest) and closest(alias, clusters))):
            findings.problem(key, _unknown_alias(alias, clusters))
        else:
            _unknown_key(findings, key, key)


def _check_cluster_key(
    findings: Diagnostics, key: str, name: str, raw: Raw, clusters: Collection[str]
) -> None:
    if (reason := inert_reason(name)) is not None:
        findings.note(key, f"has no effect: {reason}")
    elif (name in KEYS and name not in JAVA_KEYS) or name in REMOVED:
        new = name if name in KEYS else REMOVED[name].rpartition(" ")[2]
        alias = key[: -len(name) - 1]
        other = next((other for other in clusters if other != alias), "B")
        findings.problem(key, f"belongs to a flow; write {other}->{alias}.{new} or {new}")
    else:
        role, property_name = client_property(name) or (None, name)
        check_property(findings, key, role, property_name, raw)


def _check_flow_key(findings: Diagnostics, key: str, name: str, raw: Raw, flow: Flow) -> None:
    if name in _ALIAS_KEYS:
        alias = flow.source if name.startswith("source") else flow.target
        if text(raw).strip() != alias:
            findings.problem(key, f"{findings.shown(key, raw)} is not {alias!r}; remove the key")
    elif not _check_own_key(findings, key, name, raw, "flow"):
        if name in JAVA_KEYS:
            findings.problem(
                key, f"belongs to a client; write {flow}.source.consumer.{name} or the like"
            )
        else:
            _unknown_key(findings, key, name)


def _check_own_key(findings: Diagnostics, key: str, name: str, raw: Raw, place: str) -> bool:
    """Checks the value of a key this program knows; False where it does not know it."""
    if name in KEYS:
        _check_value(findings, key, name, raw, place)
    elif name in REMOVED:
        findings.problem(key, REMOVED[name])
    elif name.partition(".")[0] in REFUSED:
        if items(raw):
            findings.problem(key, f"{REFUSED[name.partition('.')[0]]}; remove it")
    elif (reason := inert_reason(name)) is not None:
        findings.note(key, f"has no effect: {reason}")
    elif (client := client_property(name)) is not None:
        check_property(findings, key, *client, raw)
    else:
        return False
    return True


def _check_value(findings: Diagnostics, key: str, name: str, raw: Raw, place: str) -> None:
    if place not in KEYS[name].places:
        findings.problem(key, f"is for the whole file; write {name}")
        return
    try:
        read(KEYS[name], raw)
    except ValueMisfitError as problem:
        findings.problem(key, f"{findings.shown(key, raw)} does not fit; {problem}")
        return
    if KEYS[name].since == "later":
        findings.note(key, "is understood, but this version does not act on it yet")


def _unknown_key(findings: Diagnostics, key: str, name: str) -> None:
    other = closest(name, [*KEYS, *REMOVED, "config.providers"])
    hint = f"; did you mean {key[: len(key) - len(name)]}{other}?" if other else "; remove it"
    findings.problem(key, f"unknown key{hint}")
