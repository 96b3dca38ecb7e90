"""The target's ids of the source's schemas, as far as they are known. Pure.

They belong to a topic and a half of its records: five bytes that begin with zero are an id there,
and data elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from replication.model import Headers
from replication.schemas.framing import naming_header, schema_id, with_id
from replication.schemas.values import Part

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
