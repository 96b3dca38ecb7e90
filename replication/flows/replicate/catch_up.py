"""Whether a flow has caught up that is to end then: with what was there when an operator asked.

A source that grows faster than it is copied holds up nothing: the ends are noted once, and again
only for another request. What is set aside, paused or without a leader counts until it is copied
as well, and so does what nobody knows the end of.
"""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import TopicPartition
from replication.topics.topic_plan import TopicPlan

AGAIN_SECONDS: Final = 2.0
"""Between two looks at ends, and how long one waits: a leader may be silent."""


class CatchUpGoal:
    """The ends that one flow is to reach.

    Args:
        context: The flow.
        set_aside: Returns what of it is set aside now.
    """

    def __init__(self, context: FlowContext, set_aside: Callable[[], Collection[object]]) -> None:
        self._context = context
        self._set_aside = set_aside
        self._noted = frozenset[str]()  # the requests for which the ends were noted
        self._ends: dict[TopicPartition, int] = {}
        self._selected = frozenset[TopicPartition]()
        self._due_at = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether the flow is to end once it has caught up; that may be taken back."""
        return bool(self._context.catch_up.asked)

    @property
    def is_due(self) -> bool:
        """Whether topics are to be looked at: an end is not noted yet that somebody waits for."""
        is_noted = self._context.catch_up.asked <= self._noted and self._is_known
        return self.is_asked and not is_noted and time.monotonic() >= self._due_at

    @property
    def _is_known(self) -> bool:
        return self._selected <= self._ends.keys()

    def note(self, plan: TopicPlan) -> None:
        """Notes where the partitions of *plan* end, what is paused included, each once."""
        asked, context = self._context.catch_up.asked, self._context
        if not asked:
            return
        known = self._ends if asked <= self._noted else {}
        self._selected = frozenset((*plan.partitions, *plan.paused))
        new = self._selected - known.keys()
        ends: dict[TopicPartition, int] = {}
        with suppress(ClusterError):  # what is not known now is asked for again
            ends = context.source.ends_at_once(new, context.config.isolation, AGAIN_SECONDS)
        self._ends, self._noted = {**known, **ends}, asked
        self.postpone()

    def postpone(self) -> None:
        """Lets the next look wait."""
        self._due_at = time.monotonic() + AGAIN_SECONDS

    @property
    def fulfilled(self) -> frozenset[str]:
        """The requests for which all is acknowledged that was there when they were noted."""
        if self._set_aside() or not self._is_known:
            return frozenset()
        positions = self._context.metrics.look().copying.positions
        is_reached = all(positions.get(tp, 0) >= self._ends[tp] for tp in self._selected)
        return self._noted if is_reached else frozenset()

    @property
    def is_reached(self) -> bool:
        """Whether the flow may end."""
        return self.is_asked and self._context.catch_up.asked <= self.fulfilled
