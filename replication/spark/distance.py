"""What clients may have on its way to a cluster that is far away. Pure rules.

One fetch of a partition is on its way at a time, and a producer has five requests on their way to a
broker. So what passes in a round trip is the most that a partition gets: a megabyte each 100 ms is
10 MB/s, however fast the network is.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

READ_BYTES_PER_SECOND: Final = 134_217_728
"""What a fetch of a partition is large enough for. A fetch also takes the time of its transfer, so
that half of this is reached where the network is not faster than this."""

WRITTEN_BYTES_PER_SECOND: Final = 67_108_864
"""The same for the batches of a partition that are on their way."""

REQUESTS_IN_FLIGHT: Final = 5
"""What an idempotent producer has on its way to a broker, at most."""

DEFAULT_LIMIT: Final = 1_048_588
"""``max.message.bytes`` of a topic, by default."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """How long a small request takes, in seconds, to the source and to the target."""

    source: float = 0.0
    target: float = 0.0

    @property
    def fetch_bytes(self) -> int:
        """What a fetch should bring of one partition, so that it does not wait for the distance."""
        return int(READ_BYTES_PER_SECOND * self.source)

    @property
    def unanswered_bytes(self) -> int:
        """What is sent while the first answer is on its way."""
        return int(WRITTEN_BYTES_PER_SECOND * self.target)

    def batch_bytes(self, limits: Collection[int]) -> int:
        """Returns what a batch should have, so that those on their way fill the distance.

        Args:
            limits: The bytes of a batch that the topics take. A larger ``batch.size`` than the
                interceptor's room for one (``producer/BatchRoom``) would mean a batch a round trip.
        """
        least = min(limits, default=DEFAULT_LIMIT)
        return min(least - least // 16 - 61, self.unanswered_bytes // REQUESTS_IN_FLIGHT)
