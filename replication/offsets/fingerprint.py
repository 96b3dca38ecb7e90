"""When a record on the target is taken for the copy of one on the source. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A record's place, the hash of its content, and its time where that tells anything.

    Args:
        offset: The record's.
        content: A hash of key, value and headers: equal hashes stand for equal content.
        time_ms: Its timestamp. None for an original that has none, so that the producer gave its
            copy the present; and for a copy whose time the target has set.
    """

    offset: int
    content: bytes | int
    time_ms: int | None

    def equals(self, other: "Fingerprint") -> bool:
        """Returns whether one copies the other: a time that only one has does not count."""
        times = {self.time_ms, other.time_ms}
        return self.content == other.content and (len(times) == 1 or None in times)
