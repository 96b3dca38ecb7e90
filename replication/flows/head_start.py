"""Lets the records start first: background queries wait for the first records, or for a while.

Each streaming query costs CPU seconds to start. Beside the records' own query, those of heartbeats,
checkpoints and metadata would make the first record wait for them.
"""

import math
import time
from collections.abc import Collection
from threading import Event
from typing import Final

from replication.model import Flow

LONGEST_SECONDS: Final = 30.0
"""The longest wait for a flow that cannot reach a cluster, or whose records another process has."""

IDLE_SECONDS: Final = 10.0
"""Within this time a query would have copied a first record; afterwards there seems to be none."""

POLL_SECONDS: Final = 0.1


class HeadStart:
    """The head start of a process's flows. Threads may share it.

    Args:
        flows: Those whose records go first; without any it is over at once.
        longest_seconds: After which it is over in any case, from `begin` on.
        idle_seconds: After which a flow whose query has copied nothing ends it.
        is_standby: Whether it begins with the first flow that this process may replicate.
    """

    def __init__(
        self,
        flows: Collection[Flow] = (),
        longest_seconds: float = LONGEST_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        *,
        is_standby: bool = False,
    ) -> None:
        self.idle_seconds = idle_seconds
        self._flows = set(flows)
        self._longest_seconds = longest_seconds
        self._until = math.inf
        if not is_standby:
            self.begin()

    @property
    def is_over(self) -> bool:
        """Whether background queries may start."""
        return not self._flows or time.monotonic() >= self._until

    def begin(self) -> None:
        """Begins to count the seconds, unless that has begun: this process has a flow."""
        if self._until == math.inf:
            self._until = time.monotonic() + self._longest_seconds

    def end(self, flow: Flow) -> None:
        """Says that *flow* needs it no longer: its records are copied, or it has none now."""
        self._flows.discard(flow)

    def await_end(self, stop: Event) -> None:
        """Waits until it is over, or *stop* is set."""
        while not self.is_over and not stop.wait(POLL_SECONDS):
            pass
