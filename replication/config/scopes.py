"""Groups flat settings by scope (file, cluster, flow) and reports unknown keys. Pure."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, cast

from replication.config.client_keys import JAVA_KEYS, SECURITY, Role
from replication.config.client_properties import (
    check_property,
    client_property,
    effective_properties,
    in_flow,
    misplaced,
    without_override,
)
from replication.config.field_keys import TARGETS, translate
from replication.config.ignored import NEVER, REMOVED, ignored_reason
from replication.config.keys import KEYS
from replication.config.limits import (
    LIMIT_BYTES,
    LIMIT_RECORDS,
    LIMIT_TOPICS,
    ReadLimits,
    read_limits,
)
from replication.config.state_access import HADOOP, check_hadoop_key
from replication.config.topic_settings import IDENTITY_POLICIES
from replication.config.transforms import PREFIX, TRANSFORMS
from replication.config.values import (
    Diagnostics,
    InvalidValueError,
    Raw,
    Value,
    closest,
    items,
    known,
    read,
    text,
)
from replication.mm2.policy import CLASSES, POLICY
from replication.mm2.single_message_transforms import belongs
from replication.model import Flow, Location

SERVERS: Final = "bootstrap.servers"
_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]+")
_ALIAS_KEYS: Final = ("source.cluster.alias", "target.cluster.alias")
_MISSPELT: Final = 0.8
"""From this similarity on, an unknown key is taken for a misspelt one, and is a problem."""
_SIMILAR: Final = 0.55
_CHOOSES_RECORDS: Final = re.compile(
    r"(topics|groups)(\.exclude)?|enabled|auto\.offset\.reset|replication\.(?!factor).*|state\..*"
    r"|record\.timestamps|config\.properties\.exclude"
)
"""Keys that change what is replicated, so that one in a place without effect is a problem."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """The settings by scope; the keys are without their scope."""

    clusters: tuple[str, ...]
    top: dict[str, Raw] = field(default_factory=dict)
    by_cluster: dict[str, dict[str, Raw]] = field(default_factory=dict)
    by_flow: dict[Flow, dict[str, Raw]] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    def is_hidden(self, name: str) -> bool:
        """Returns whether a value of the key *name* came from a reference, in any scope."""
        return any(key == name or key.endswith(f".{name}") for key in self.hidden)

    @property
    def pairs(self) -> list[Flow]:
        """Every possible flow."""
        return [Flow(source, target) for source, target in permutations(self.clusters, 2)]


def sort_settings(diagnostics: Diagnostics, settings: Mapping[str, Raw]) -> Scopes:
    """Sorts *settings* by scope, and checks each key and value on its own."""
    settings = translate(diagnostics, settings)
    clusters = _clusters(diagnostics, settings)
    diagnostics.has_classes = any(
        key.endswith(name) and text(raw).strip() not in KEYS[name].choices
        for key, raw in settings.items()
        for name in CLASSES
    )
    hidden = frozenset(diagnostics.hidden)
    scopes = Scopes(clusters, by_cluster={alias: {} for alias in clusters}, hidden=hidden)
    for key, raw in settings.items():
        if "->" in key:
            _sort_flow_key(diagnostics, scopes, key, raw)
        elif (alias := _cluster_of(key, clusters)) is not None:
            name = key[len(alias) + 1 :]
            scopes.by_cluster[alias][name] = raw
            _check_cluster_key(diagnostics, key, name, raw, clusters)
        else:
            scopes.top[key] = raw
            _check_top_key(diagnostics, key, raw, clusters)
    if SERVERS in scopes.top:  # as in MirrorMaker 2, what stands there is for clusters without any
        without = [alias for alias in clusters if SERVERS not in scopes.by_cluster[alias]]
        for alias in without:
            scopes.by_cluster[alias][SERVERS] = scopes.top[SERVERS]
        if not without:
            diagnostics.unused(
                SERVERS, "has no effect: each cluster has its own addresses", warns=True
            )
    return scopes


def _clusters(diagnostics: Diagnostics, settings: Mapping[str, Raw]) -> tuple[str, ...]:
    raw = settings.get("clusters")
    if raw is None or not items(raw):
        diagnostics.problem(
            "clusters", "missing; list the aliases, for example clusters: [east, west]"
        )
        return ()
    parts = [item.strip() for item in (raw.split(",") if isinstance(raw, str) else raw)]
    for alias in dict.fromkeys(parts):
        if parts.count(alias) > 1:
            diagnostics.problem("clusters", f"{alias!r} is listed twice; remove one")
        if not _ALIAS.fullmatch(alias):
            diagnostics.problem(
                "clusters",
                f"{alias!r} is not a valid alias: use A-Z a-z 0-9 . _ - (it becomes part of topic "
                "names)",
            )
    return tuple(alias for alias in items(raw) if _ALIAS.fullmatch(alias))


def _alias_of(key: str, clusters: Collection[str]) -> str | None:
    aliases = [alias for alias in clusters if key.startswith(f"{alias}.")]
    return max(aliases, key=len, default=None)


def _cluster_of(key: str, clusters: Collection[str]) -> str | None:
    """Returns the cluster that *key* configures, even one called ``source`` or ``target``."""
    if key in KEYS or key.startswith(("source.cluster.", "target.cluster.")):
        return None
    return _alias_of(key, clusters)


def _sort_flow_key(diagnostics: Diagnostics, scopes: Scopes, key: str, raw: Raw) -> None:
    source, _, rest = (part.strip() for part in key.partition("->"))
    if source in scopes.clusters and rest in scopes.clusters:
        diagnostics.problem(key, f"is a flow without a key; write {source}->{rest}.enabled")
        return
    target = _alias_of(rest, scopes.clusters)
    if source not in scopes.clusters:
        diagnostics.problem(key, _unknown_cluster(source, scopes.clusters))
    if target is None:
        diagnostics.problem(key, _unknown_cluster(rest.partition(".")[0], scopes.clusters))
    elif source == target:
        diagnostics.problem(key, f"source and target are both {source!r}; use two clusters")
    elif source in scopes.clusters:
        name, flow = rest[len(target) + 1 :], Flow(source, target)
        scopes.by_flow.setdefault(flow, {})[name] = raw
        _check_flow_key(diagnostics, key, name, raw, flow)


def _unknown_cluster(alias: str, clusters: Collection[str]) -> str:
    other = closest(alias, clusters, 0.6)
    hint = f"; did you mean {other!r}?" if other else ""
    return f"unknown cluster {alias!r}; clusters: {', '.join(clusters) or 'none'}{hint}"


def _check_top_key(diagnostics: Diagnostics, key: str, raw: Raw, clusters: Collection[str]) -> None:
    if key == "config.providers" or key.startswith("config.providers."):
        return
    if key.startswith(HADOOP):
        check_hadoop_key(diagnostics, key)
    elif key in _ALIAS_KEYS:
        _check_top_alias(diagnostics, key, raw, clusters)
    elif key in SECURITY or key == SERVERS:
        check_property(diagnostics, key, None, key, raw)
    elif key in JAVA_KEYS and ignored_reason(key) is None and key not in KEYS:
        right = f"{next(iter(clusters), 'A')}.{key}"
        diagnostics.unused(
            key,
            f"has no effect, as in MirrorMaker 2: it is a client property; write {right}",
            warns=True,
        )
    elif not _check_known_key(diagnostics, key, key, raw, "top"):
        alias, _, rest = key.partition(".")
        if rest and (rest in JAVA_KEYS or (client_property(rest) and closest(alias, clusters))):
            diagnostics.problem(key, _unknown_cluster(alias, clusters))
        else:
            _report_unknown_key(diagnostics, key, key)


def _check_top_alias(
    diagnostics: Diagnostics, key: str, raw: Raw, clusters: Collection[str]
) -> None:
    """MirrorMaker 2 takes it for every flow; only one that changes no name can be followed."""
    value = text(raw).strip()
    if value and value not in clusters:
        diagnostics.problem(key, _unknown_cluster(value, clusters))
    elif value:
        diagnostics.unused(key, "has no effect: the name of a flow gives its aliases")


def _check_cluster_key(
    diagnostics: Diagnostics, key: str, name: str, raw: Raw, clusters: Collection[str]
) -> None:
    alias = key[: -len(name) - 1]
    if name in KEYS and (place := {"target", "cluster"} & {*KEYS[name].places}):
        _check_value(diagnostics, key, name, raw, place.pop())
    elif name.startswith(PREFIX):
        other = next((other for other in clusters if other != alias), "B")
        diagnostics.problem(key, f"is a flow key; write {other}->{alias}.{name} or {name}")
    elif (reason := ignored_reason(name)) is not None:
        diagnostics.unused(key, f"has no effect: {reason}")
    elif (meant := misplaced(name)) is not None:
        diagnostics.problem(
            key, f"would have no effect, as in MirrorMaker 2; write {alias}.{meant}"
        )
    elif name in KEYS and "flow" not in KEYS[name].places:
        diagnostics.problem(key, f"is a top-level key; write {name}")
    elif name in KEYS and name not in JAVA_KEYS:
        other = next((other for other in clusters if other != alias), "B")
        if _CHOOSES_RECORDS.fullmatch(name):
            diagnostics.problem(key, f"is a flow key; write {other}->{alias}.{name} or {name}")
        else:
            diagnostics.unused(
                key,
                "has no effect, as in MirrorMaker 2: it is a flow key; write "
                f"{other}->{alias}.{name} or {name}",
                warns=True,
            )
    else:
        role, property_name = client_property(name) or (None, name)
        check_property(diagnostics, key, role, property_name, raw)


def _check_flow_key(diagnostics: Diagnostics, key: str, name: str, raw: Raw, flow: Flow) -> None:
    if name in _ALIAS_KEYS:
        alias = flow.source if name.startswith("source") else flow.target
        if text(raw).strip() != alias:
            diagnostics.problem(
                key, f"{diagnostics.display(key, raw)} must be {alias!r}; remove the key"
            )
    elif name.startswith(HADOOP):
        diagnostics.problem(key, f"is a top-level key; write {name}")
    elif not _check_known_key(diagnostics, key, name, raw, "flow"):
        if name in JAVA_KEYS:
            right = f"{flow}.{in_flow(name)}"
            diagnostics.problem(key, f"is a client property; write for example {right}")
        else:
            _report_unknown_key(diagnostics, key, name)


def _check_known_key(diagnostics: Diagnostics, key: str, name: str, raw: Raw, place: str) -> bool:
    """Checks the value of a key the mirror knows; False if it does not know the key."""
    if name in KEYS:
        _check_value(diagnostics, key, name, raw, place)
    elif name.startswith(PREFIX):
        pass  # checked with the other keys of its transform, where a flow lists it
    elif name in NEVER:
        diagnostics.problem(key, NEVER[name])
    elif belongs(name):
        pass  # part of a chain that could not be read: its problem is known
    elif (reason := ignored_reason(name)) is not None:
        diagnostics.unused(key, f"has no effect: {reason}")
    elif (meant := without_override(name)) is not None:
        right = f"{key.removesuffix(name)}{meant}"
        diagnostics.problem(key, f"would have no effect, as in MirrorMaker 2; write {right}")
    elif (client := client_property(name)) is not None:
        check_property(diagnostics, key, *client, raw)
    else:
        return False
    return True


def _check_value(diagnostics: Diagnostics, key: str, name: str, raw: Raw, place: str) -> None:
    if place not in KEYS[name].places:
        kind = "key of a cluster" if "cluster" in KEYS[name].places else "top-level key"
        diagnostics.problem(key, f"is a {kind}; write {KEYS[name].written}")
        return
    try:
        read(KEYS[name], raw)
    except InvalidValueError as error:
        shows_items = KEYS[name].kind == "patterns"  # the error quotes the invalid ones
        advice = "write names or regexes" if shows_items and key in diagnostics.hidden else error
        diagnostics.problem(key, f"{diagnostics.display(key, raw)} is invalid; {advice}")
        return
    if KEYS[name].since == "later":
        diagnostics.note(key, "accepted, but not implemented in this version")


def _report_unknown_key(diagnostics: Diagnostics, key: str, name: str) -> None:
    """Reports a misspelt key of ours as a problem; MirrorMaker 2 drops others without a word."""
    known = [*KEYS, *REMOVED, "config.providers"]
    if (other := closest(name, known, _MISSPELT)) is not None:
        diagnostics.problem(key, f"unknown key; did you mean {_placed(key, name, other)}?")
    elif diagnostics.has_classes:
        diagnostics.note(key, "unknown key, for your own classes only")
    else:
        other = closest(name, known, _SIMILAR)
        hint = f"; the most similar key is {_placed(key, name, other)}" if other else ""
        diagnostics.unused(key, f"unknown key, without effect{hint}", warns=True)


def _placed(key: str, name: str, other: str) -> str:
    is_of_flow = other in REMOVED or (other in KEYS and "flow" in KEYS[other].places)
    return key.removesuffix(name) + other if is_of_flow else other


# The values that apply to one flow.

EMPTY_ALIAS: Final = "source.cluster.alias"
"""Without a value, and with an empty separator: how files kept topic names before Kafka 3.0."""


@dataclass(frozen=True, slots=True)
class FlowValues:
    """The values of *flow*: its own, else the top level's, else the defaults."""

    scopes: Scopes
    flow: Flow
    refuses_missing: bool = False
    """Whether a value with a reference that leads nowhere is an error. For checks it is its key's
    default, of which nothing is said."""

    @property
    def own(self) -> Mapping[str, Raw]:
        """The flow's own settings, as written."""
        return self.scopes.by_flow.get(self.flow, {})

    def value(self, name: str) -> Value:
        """Returns the value of the key *name*, converted to the key's kind.

        For a key that sets a client property it is the value that the client has, however the file
        gives it.
        """
        key = KEYS[name]
        if key.effect is None:
            raw = self.given(name)
        else:
            location, role = key.effect[0].split(".")
            client = self.client(cast("Location", location), cast("Role", role))
            raw = client.get(key.effect[1])
        if raw is not None:
            if self.refuses_missing:
                known(raw)
            with suppress(InvalidValueError):  # reported when the settings were sorted into scopes
                return read(key, raw)
        return read(key, key.default)

    def given(self, name: str) -> Raw | None:
        """Returns what the file has for the key *name*, None if it leaves that to the default."""
        of_target = self.scopes.by_cluster.get(self.flow.target, {})
        allowed = of_target if "target" in KEYS[name].places else {}
        places = (self.own, self.scopes.top, allowed)
        return next((settings[name] for settings in places if name in settings), None)

    def flag(self, name: str) -> bool:
        return cast("bool", self.value(name))

    def number(self, name: str) -> int:
        return cast("int", self.value(name))

    def text(self, name: str) -> str:
        """Returns the value of a key of kind ``text``, ``choice`` or ``class``."""
        return cast("str", self.value(name))

    def items(self, name: str) -> tuple[str, ...]:
        """Returns the value of a key of kind ``names``, ``patterns`` or ``choices``."""
        return cast("tuple[str, ...]", self.value(name))

    def key(self, name: str) -> str:
        """Returns the key as the file has it, for a message."""
        if name in self.own:
            return f"{self.flow}.{name}"
        is_of_target = name not in self.scopes.top and self.given(name) is not None
        return f"{self.flow.target}.{name}" if is_of_target else name

    @property
    def is_identity(self) -> bool:
        """Whether remote topics keep their names."""
        is_named = self.text(POLICY) in IDENTITY_POLICIES
        return is_named or self.keeps_names_by_empty_alias

    @property
    def has_own_policy(self) -> bool:
        """Whether a class of the user's names remote topics."""
        return self.text(POLICY) not in KEYS[POLICY].choices

    @property
    def keeps_names_by_empty_alias(self) -> bool:
        """Whether an empty alias and an empty separator leave nothing to prefix a name with."""
        alias = self.scopes.top.get(EMPTY_ALIAS)
        return alias is not None and not alias and self.text("replication.policy.separator") == ""

    @property
    def is_chosen(self) -> bool:
        """Whether this file may write to the flow's target, as MirrorMaker 2's ``--clusters``."""
        targets = self.items(TARGETS)
        return not targets or self.flow.target in targets

    @property
    def transform_settings(self) -> tuple[tuple[str, ...], dict[str, Raw], frozenset[str]]:
        """What `replication.config.transforms.read_transforms` takes of this flow.

        What stands at top level is for every flow, so that a flow need not list all of it.
        """
        listed = self.items(TRANSFORMS)
        shared = {
            key: raw
            for key, raw in self.scopes.top.items()
            if key.startswith(PREFIX) and key.removeprefix(PREFIX).partition(".")[0] in listed
        }
        own = {key: raw for key, raw in self.own.items() if key.startswith(PREFIX)}
        settings = {**shared, **own}
        if self.refuses_missing:
            settings = {key: known(raw) for key, raw in settings.items()}
        return listed, settings, frozenset(filter(self.scopes.is_hidden, settings))

    @property
    def limits(self) -> ReadLimits:
        of_bytes, of_records = self.text(LIMIT_BYTES), self.text(LIMIT_RECORDS)
        return read_limits(of_bytes, of_records, self.items(LIMIT_TOPICS))

    def alias(self, location: Location) -> str:
        return self.flow.source if location == "source" else self.flow.target

    def client(self, location: Location, role: Role) -> Mapping[str, str]:
        return effective_properties(
            self.scopes.top,
            self.scopes.by_cluster[self.alias(location)],
            self.own,
            location=location,
            role=role,
            refuses_missing=self.refuses_missing,
        )
