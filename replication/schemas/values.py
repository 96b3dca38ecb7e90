"""What a schema registry holds, as values. Pure."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, get_args

from replication.foreign_json import in_json, read_json
from replication.model import Headers

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
    number: int = field(metadata=in_json("version"))
    id: int
    schema: Schema = field(metadata=in_json(""))

    def __str__(self) -> str:
        return f"{self.subject} version {self.number} (id {self.id})"


# Names of subjects, and what a copied topic's are called on the target.
#
# By the strategies of Confluent's serialisers: a subject is ``TOPIC-key`` and ``TOPIC-value``,
# ``TOPIC-RECORD``, or the record's own name, which no topic changes.


def topic_of(subject: str, topics: Collection[str]) -> str | None:
    """Returns which of *topics* a subject belongs to by its name, the longest; None for none."""
    for part in get_args(Part):
        if subject.endswith(f"-{part}"):  # a record's name has no hyphen
            topic = subject.removesuffix(f"-{part}")
            return topic if topic in topics else None
    parts = subject.split("-")
    prefixes = ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((prefix for prefix in prefixes if prefix in topics), None)


def on_target(subject: str, remote: Mapping[str, str]) -> str:
    """Returns what *subject* is called on the target.

    Args:
        subject: On the source.
        remote: The remote topic of each copied topic.
    """
    topic = topic_of(subject, remote.keys())
    return subject if topic is None else remote[topic] + subject[len(topic) :]


def subject_for(
    uses: Collection[str], topic: str, part: Part, remote: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the subject to take a schema from, and the one to register it under.

    Args:
        uses: The subjects on the source that have the schema; it may be none.
        topic: The topic whose record carries its id.
        part: Where it carries it.
        remote: The remote topic of each copied topic.
    """
    own = f"{topic}-{part}"
    records = [name for name in sorted(uses) if not name.endswith(("-key", "-value"))]
    of_topic = [name for name in records if topic_of(name, remote.keys()) == topic]
    of_none = [name for name in records if topic_of(name, remote.keys()) is None]
    found = own if own in uses else next(iter([*of_topic, *of_none]), own)
    return found, on_target(found, remote)


# Where a record names the schema of its key or value: five bytes before it, or a header.
#
# The five bytes are a zero and the id; the rest of a record, such as Protobuf's indexes of a
# message, follows the id and is nobody's here. Newer serialisers put a one and a GUID, or the five
# bytes, into a header; such a key or value has none before it, whatever it begins with. A GUID is
# the same in all registries.

MAGIC: Final = 0
FRAME_BYTES: Final = 5

SCHEMA_HEADERS: Final[Mapping[Part, str]] = MappingProxyType(
    {"key": "__key_schema_id", "value": "__value_schema_id"}
)


def schema_id(part: bytes | None) -> int | None:
    """Returns the id that a key, a value, or such a header carries; None if it is not framed."""
    if part is None or len(part) < FRAME_BYTES or part[0] != MAGIC:
        return None
    return int.from_bytes(part[1:FRAME_BYTES], "big")


def naming_header(part: Part, headers: Sequence[tuple[str, bytes | None]]) -> int | None:
    """Returns which of *headers* names the schema of a part; None if that is for its frame.

    By Confluent's deserialisers: the last one of that name, unless it is null.
    """
    of_part = [at for at, (name, _) in enumerate(headers) if name == SCHEMA_HEADERS[part]]
    return of_part[-1] if of_part and headers[of_part[-1]][1] is not None else None


def with_id(part: bytes, number: int) -> bytes:
    """Returns the framed *part* with another id, and everything else as it is."""
    return part[:1] + number.to_bytes(FRAME_BYTES - 1, "big") + part[FRAME_BYTES:]


# The target's ids of the source's schemas, as far as they are known.
#
# They belong to a topic and a half of its records: five bytes that begin with zero are an id
# there, and data elsewhere.

NO_IDS: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(slots=True)
class KnownIds:
    """Ids by topic of the source and part; threads may add some while others read."""

    _places: dict[tuple[str, Part], dict[int, int]] = field(default_factory=dict)

    def add(self, topic: str, part: Part, source: int, target: int) -> None:
        """Adds one id of the source's registry, and the target's for the same schema."""
        known = self._places.get((topic, part), {})
        self._places[topic, part] = {**known, source: target}

    def of(self, topic: str, part: Part) -> Mapping[int, int]:
        """Returns the target's ids by those of the source, in records of a topic."""
        return self._places.get((topic, part), NO_IDS)

    def places(self) -> Iterator[tuple[str, Part, Mapping[int, int]]]:
        """Yields each topic and part of which ids are known, and these."""
        for (topic, part), known in list(self._places.items()):
            yield topic, part, known

    def translated(
        self, topic: str, part: Part, data: bytes | None, headers: Headers
    ) -> tuple[bytes | None, Headers]:
        """Returns a key or value and its record's *headers* with the target's id in one of them.

        Both are unchanged if neither has an id, or that is not known.
        """
        at = naming_header(part, headers)
        carrier = data if at is None else headers[at][1]
        number = schema_id(carrier)
        if data is None or carrier is None or number is None:
            return data, headers
        changed = with_id(carrier, self.of(topic, part).get(number, number))
        if at is None:
            return changed, headers
        return data, (*headers[:at], (headers[at][0], changed), *headers[at + 1 :])
