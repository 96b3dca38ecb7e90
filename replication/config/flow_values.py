"""The values that apply to one flow. Pure."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from replication.config.client_properties import effective_properties
from replication.config.clients.java_keys import Role
from replication.config.field_keys import TARGETS
from replication.config.keys import KEYS
from replication.config.limits import (
    LIMIT_BYTES,
    LIMIT_RECORDS,
    LIMIT_TOPICS,
    ReadLimits,
    read_limits,
)
from replication.config.scopes import Scopes
from replication.config.topic_settings import IDENTITY_POLICIES
from replication.config.transforms import PREFIX, TRANSFORMS
from replication.config.values import InvalidValueError, Raw, Value, known, read
from replication.mm2.custom import POLICY
from replication.model import Flow, Location

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
        """Returns the value of the key *name*, converted to the key's kind."""
        if (raw := self.given(name)) is not None:
            if self.refuses_missing:
                known(raw)
            with suppress(InvalidValueError):  # reported when the settings were sorted into scopes
                return read(KEYS[name], raw)
        return read(KEYS[name], KEYS[name].default)

    def given(self, name: str) -> Raw | None:
        """Returns what the file has for the key *name*, None if it leaves that to the default."""
        of_target = self.scopes.by_cluster.get(self.flow.target, {})
        allowed = of_target if "target" in KEYS[name].places else {}
        places = (self.own, self.scopes.top, allowed)
        return next((settings[name] for settings in places if name in settings), None)

    def flag(self, name: str) -> bool:
        """Returns the value of a key of kind ``flag``."""
        return cast("bool", self.value(name))

    def number(self, name: str) -> int:
        """Returns the value of a key of kind ``number``."""
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
        """How much the flow may copy a second, and what is wrong with that."""
        of_bytes, of_records = self.text(LIMIT_BYTES), self.text(LIMIT_RECORDS)
        return read_limits(of_bytes, of_records, self.items(LIMIT_TOPICS))

    def alias(self, location: Location) -> str:
        """Returns the alias of the flow's cluster at *location*."""
        return self.flow.source if location == "source" else self.flow.target

    def client(self, location: Location, role: Role) -> Mapping[str, str]:
        """Returns the effective properties of the *role* client for the cluster at *location*."""
        return effective_properties(
            self.scopes.top,
            self.scopes.by_cluster[self.alias(location)],
            self.own,
            location=location,
            role=role,
            refuses_missing=self.refuses_missing,
        )
