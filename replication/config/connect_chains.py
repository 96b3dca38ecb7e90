"""Chains of Kafka Connect in a file of MirrorMaker 2, read as this mirror's transforms. Pure.

A chain with a problem stays as it is written, so that no part of it runs alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replication.config.config_key import MIRROR
from replication.config.topic_settings import DEFAULT_POLICY, IDENTITY_POLICIES
from replication.config.values import Diagnostics, Raw, items, text
from replication.mm2.custom import POLICY
from replication.mm2.policy import HEARTBEATS
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

_LISTS: Final = (CHAIN, PREDICATES)
_SEPARATOR: Final = "replication.policy.separator"
_ALIAS: Final = "source.cluster.alias"


def read_chains(
    diagnostics: Diagnostics, settings: Mapping[str, Raw], scopes: Mapping[str, str]
) -> dict[str, Raw]:
    """Returns *settings* with this mirror's keys in the place of each chain.

    Args:
        diagnostics: Gets what is wrong with a chain.
        settings: Full key -> value.
        scopes: Each of these keys -> the part of it that names a cluster or flow, with its dot.
    """
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
    """The chain of the flow whose keys begin with *scope*."""

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
        """Returns the flow's own value of the key *name*, or the file's."""
        return self.settings.get(f"{self.scope}{name}", self.settings.get(name))

    def key(self, name: str) -> str:
        """Returns the key as the file has it, for a message."""
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
