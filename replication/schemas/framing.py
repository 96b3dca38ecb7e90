"""The five bytes before a record's data that name its schema: zero, then the id. Pure.

The rest of a record, such as Protobuf's indexes of a message, follows the id and is nobody's here.
Newer serialisers can put the id into a header instead; that one is left as it is.
"""

from typing import Final

MAGIC: Final = 0
FRAME_BYTES: Final = 5


def schema_id(part: bytes | None) -> int | None:
    """Returns the id that a key or a value carries; None if it is not framed."""
    if part is None or len(part) < FRAME_BYTES or part[0] != MAGIC:
        return None
    return int.from_bytes(part[1:FRAME_BYTES], "big")


def with_id(part: bytes, number: int) -> bytes:
    """Returns the framed *part* with another id, and everything else as it is."""
    return part[:1] + number.to_bytes(FRAME_BYTES - 1, "big") + part[FRAME_BYTES:]
