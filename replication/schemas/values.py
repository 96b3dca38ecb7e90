"""What a schema registry holds, as values. Pure."""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from replication.foreign_json import read_json

Part = Literal["key", "value"]
"""Which half of a record carries a schema's id."""

AVRO: Final = "AVRO"
"""What a registry means that names no type."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One schema named by another: as *name*, it is version *version* of *subject*."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry stores it.

    Args:
        text: Its text.
        kind: AVRO, JSON or PROTOBUF; a registry may know others.
        references: The schemas that it needs.
        contract: Its metadata and rules as one JSON text, "" if it has none.
    """

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    contract: str = ""

    def means(self, other: "Schema") -> bool:
        """Returns whether both describe the same data: spaces and the order of keys may differ.

        A reference is known by its name: subjects and versions are those of one registry.
        """
        return self.essence == other.essence

    @property
    def digest(self) -> str:
        """A hash of what it says, for a table."""
        return sha256(self.essence.encode()).hexdigest()[:32]

    @property
    def essence(self) -> str:
        """What it says, in one form, without what only its registry knows."""
        names = sorted(one.name for one in self.references)
        try:
            return json.dumps([self.kind, read_json(self.text), names], sort_keys=True)
        except (ValueError, RecursionError):  # Protobuf, or a kind of the user's
            return json.dumps([self.kind, self.text.split(), names], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    subject: str
    number: int
    id: int
    schema: Schema

    def __str__(self) -> str:
        return f"{self.subject} version {self.number} (id {self.id})"
