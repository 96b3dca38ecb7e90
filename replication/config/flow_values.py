"""A flow's own values, the top level's or the defaults. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from replication.config.client_properties import effective
from replication.config.clients.java_keys import Role
from replication.config.keys import KEYS
from replication.config.scopes import Scopes
from replication.config.values import Value, ValueMisfitError, read
from replication.model import Flow, Location


@dataclass(frozen=True, slots=True)
class FlowValues:
    """A flow's own values, the top level's or the defaults, in this order."""

    scopes: Scopes
    flow: Flow

    def value(self, name: str) -> Value:
        """The value of key *name*, read as its type."""
        for settings in (self.scopes.by_flow.get(self.flow, {}), self.scopes.top):
            if name in settings:
                try:
                    return read(KEYS[name], settings[name])
                except ValueMisfitError:  # reported where the key was sorted
                    break
        return read(KEYS[name], KEYS[name].default)

    def flag(self, name: str) -> bool:
        """A boolean key."""
        return cast("bool", self.value(name))

    def number(self, name: str) -> int:
        """An integer key."""
        return cast("int", self.value(name))

    def text(self, name: str) -> str:
        """A text key."""
        return cast("str", self.value(name))

    def items(self, name: str) -> tuple[str, ...]:
        """A list key."""
        return cast("tuple[str, ...]", self.value(name))

    def key(self, name: str) -> str:
        """The key as it stands in the file, for a message."""
        return f"{self.flow}.{name}" if name in self.scopes.by_flow.get(self.flow, {}) else name

    def client(self, side: Location, role: Role) -> Mapping[str, str]:
        """The effective properties of one kind of client, in Java's key space."""
        alias = self.flow.source if side == "source" else self.flow.target
        return effective(
            self.scopes.top,
            self.scopes.by_cluster[alias],
            self.scopes.by_flow.get(self.flow, {}),
            side=side,
            role=role,
        )
