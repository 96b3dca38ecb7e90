"""Where a record names the schema of its key or value: five bytes before it, or a header. Pure.

The five bytes are a zero and the id; the rest of a record, such as Protobuf's indexes of a message,
follows the id and is nobody's here. Newer serialisers put a one and a GUID, or the five bytes, into
a header; such a key or value has none before it, whatever it begins with. A GUID is the same in all
registries.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from replication.schemas.values import Part

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
