"""Keys of older MirrorMaker 2 versions and of Cloudera's SRM, translated into today's. Pure.

SRM prefixes worker keys with ``workers.`` and connector keys with ``connectors.``, at top level and
after a flow's name. MirrorMaker 2 3.9 still reads the ``blacklist`` keys that 4.0 removed. What is
left are the chains of Kafka Connect's transforms, which many keys describe together.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from replication.config.client_keys import SECURITY
from replication.config.client_properties import client_property
from replication.config.config_key import MIRROR
from replication.config.ignored import REMOVED, WORKER_KEY
from replication.config.topic_settings import DEFAULT_POLICY, IDENTITY_POLICIES
from replication.config.values import Diagnostics, Raw, items, text
from replication.mm2.policy import HEARTBEATS, POLICY
from replication.mm2.single_message_transforms import (
    CHAIN,
    CONVERTER,
    OWN,
    PREDICATES,
    Counterpart,
    belongs,
    counterpart,
    text_literal,
)

# Chains of Kafka Connect in a file of MirrorMaker 2, read as this mirror's transforms.
#
# A chain with a problem stays as it is written, so that no part of it runs alone.

_LISTS: Final = (CHAIN, PREDICATES)
_SEPARATOR: Final = "replication.policy.separator"
_ALIAS: Final = "source.cluster.alias"


def read_chains(
    diagnostics: Diagnostics, settings: Mapping[str, Raw], scopes: Mapping[str, str]
) -> dict[str, Raw]:
    """Returns *settings* with this mirror's keys in the place of each chain."""
    chains: dict[str, list[str]] = {}
    for key in settings:
        if belongs(key.removeprefix(scopes[key])) and (not scopes[key] or "->" in scopes[key]):
            chains.setdefault(scopes[key], []).append(key)
    at_top = chains.pop("", [])
    for key in at_top:
        if key not in _LISTS:
            diagnostics.problem(
                key, f"has no effect, as in MirrorMaker 2: it is a flow key; write A->B.{key}"
            )
        elif not chains and items(settings[key]):
            first = f"A->B.{key}.{items(settings[key])[0]}.type"
            diagnostics.problem(key, f"lists what no flow defines; write for example {first}")
    read = {key: raw for key, raw in settings.items() if not chains or key not in at_top}
    for scope, keys in chains.items():
        found = _FlowChain(scope, settings, diagnostics).counterpart(keys)
        if found is not None:
            read = {key: raw for key, raw in read.items() if key not in keys}
            read |= {f"{scope}{key}": raw for key, raw in found.settings.items()}
    return read


@dataclass(frozen=True, slots=True)
class _FlowChain:
    scope: str
    settings: Mapping[str, Raw]
    diagnostics: Diagnostics

    def counterpart(self, keys: list[str]) -> Counterpart | None:
        """Returns what *keys* are here; None if they have a problem, or are still unknown."""
        names = dict.fromkeys((*(key.removeprefix(self.scope) for key in keys), *_LISTS))
        chain = {name: text(self.given(name) or "") for name in names}
        if any("${" in value for value in chain.values()):
            return None
        self.note_unlisted(chain)
        converter = self.given(CONVERTER) or self.settings.get(f"{self.target}.{CONVERTER}")
        found = counterpart(
            chain | ({CONVERTER: text(converter)} if converter else {}), self.remote_topic()
        )
        if found.settings and self.given(OWN) is not None:
            found.problems[CHAIN] = f"stands beside {OWN}; write all transforms there"
        for name, problem in found.problems.items():
            self.diagnostics.problem(self.key(name), problem)
        for name, warning in found.warnings.items():
            self.diagnostics.warning(self.key(name), warning)
        if found.problems:
            return None
        for own, name in found.origins.items():
            self.diagnostics.written[f"{self.scope}{own}"] = self.key(name)
        if found.settings:
            self.diagnostics.note(f"{self.scope}{OWN}", f"is read as {self.scope}{OWN}")
        return found

    @property
    def target(self) -> str:
        return self.scope.partition("->")[2].strip().removesuffix(".")

    def given(self, name: str) -> Raw | None:
        return self.settings.get(f"{self.scope}{name}", self.settings.get(name))

    def key(self, name: str) -> str:
        own = f"{self.scope}{name}"
        return name if own not in self.settings and name in self.settings else own

    def note_unlisted(self, chain: Mapping[str, str]) -> None:
        """Notes settings of what no list names, which Kafka Connect passes over."""
        listed = {name: items(chain[name]) for name in _LISTS}
        for key in chain:
            kind, _, rest = key.partition(".")
            if rest and not any(rest.startswith(f"{name}.") for name in listed[kind]):
                self.diagnostics.unused(
                    f"{self.scope}{key}", f"has no effect: {kind} does not list it", warns=True
                )

    def remote_topic(self) -> str | None:
        """Returns SQL for the name of a topic on the target; None if only a class knows it."""
        policy = text(self.given(POLICY) or DEFAULT_POLICY).strip()
        given = self.given(_SEPARATOR)
        separator = "." if given is None else text(given).strip()
        source = self.scope.partition("->")[0].strip()
        prefixed = f"concat({text_literal(f'{source}{separator}')}, topic)"
        if self.settings.get(_ALIAS) == separator == "":  # names were kept by this before 3.0
            return "topic"
        if policy in IDENTITY_POLICIES:
            return f"if(endswith(topic, {text_literal(HEARTBEATS)}), {prefixed}, topic)"
        is_default = policy in (DEFAULT_POLICY, DEFAULT_POLICY.removeprefix(MIRROR))
        return prefixed if is_default else None


SRM_TARGET: Final = "streams.replication.manager.driver.target.cluster"
TARGETS: Final = "replication.target.clusters"


def translate(diagnostics: Diagnostics, settings: Mapping[str, Raw]) -> dict[str, Raw]:
    """Renames the keys of *settings* to today's.

    Each translation is noted; messages show the written key.
    """
    aliases = items(settings.get("clusters", ""))
    translated: dict[str, Raw] = {}
    for key, raw in settings.items():
        new = _without_srm_prefix(diagnostics, key, aliases)
        if new is None:
            continue
        new = _today(new, aliases)
        if new != key and new in settings:
            diagnostics.unused(key, f"has no effect: {new} is given as well and wins", warns=True)
            continue
        if new != key:
            diagnostics.written[new] = key
            diagnostics.note(key, f"is read as {new}")
        translated[new] = raw
    return read_chains(diagnostics, translated, {key: scope_of(key, aliases) for key in translated})


def scope_of(key: str, aliases: Collection[str]) -> str:
    """Returns the part of *key* that names a cluster or flow, with its dot; empty at top level."""
    source, arrow, rest = key.rpartition("->")
    found = [alias for alias in aliases if rest.startswith(f"{alias}.")]
    alias = max(found, key=len, default=None)
    return "" if alias is None else f"{source}{arrow}{alias}."


def _without_srm_prefix(diagnostics: Diagnostics, key: str, aliases: Collection[str]) -> str | None:
    """Returns *key* without ``workers.`` or ``connectors.``; None for one without effect."""
    scope = scope_of(key, aliases)
    prefix, _, name = key[len(scope) :].partition(".")
    if prefix == "connectors":
        return scope + name
    if prefix != "workers":
        return key
    if name in SECURITY or client_property(name) is not None:
        return scope + name  # the worker's producer writes the data
    diagnostics.unused(key, f"has no effect: {WORKER_KEY}")
    return None


def _today(key: str, aliases: Collection[str]) -> str:
    if key == SRM_TARGET:
        return TARGETS
    scope = scope_of(key, aliases)
    return scope + REMOVED.get(key[len(scope) :], key[len(scope) :])
