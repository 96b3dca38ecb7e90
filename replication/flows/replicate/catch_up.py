"""Whether a flow has caught up that is to end then: with what was there when an operator asked.

A source that grows faster than it is copied holds up nothing: the ends are noted once. What is set
aside, paused or without a leader counts until it is copied as well.
"""

from collections.abc import Callable, Collection

from replication.flows.context import FlowContext
from replication.model import TopicPartition
from replication.topics.topic_plan import TopicPlan


class CatchUpGoal:
    """The ends that one flow is to reach.

    Args:
        context: The flow.
        set_aside: Returns what of it is set aside now.
    """

    def __init__(self, context: FlowContext, set_aside: Callable[[], Collection[object]]) -> None:
        self._context = context
        self._set_aside = set_aside
        self._ends: dict[TopicPartition, int] | None = None
        self._selected = frozenset[TopicPartition]()

    @property
    def is_asked(self) -> bool:
        """Whether the flow is to end once it has caught up; that may be taken back."""
        if not self._context.catch_up.asked.is_set():
            self._ends = None
        return self._context.catch_up.asked.is_set()

    @property
    def is_due(self) -> bool:
        """Whether topics are to be looked at: the ends are not noted yet."""
        return self.is_asked and self._ends is None

    def note(self, plan: TopicPlan) -> None:
        """Notes where the partitions of *plan* end, what is paused included, each once.

        Raises:
            ClusterError: The source does not answer.
        """
        if not self.is_asked:
            return
        self._selected = frozenset((*plan.partitions, *plan.paused))
        known = self._ends or {}
        new = self._selected - known.keys()
        ends = self._context.source.log_ends(new, self._context.config.isolation) if new else {}
        self._ends = {**known, **ends}

    @property
    def is_reached(self) -> bool:
        """Whether the flow may end: all is acknowledged that was there."""
        if not self.is_asked or self._ends is None or self._set_aside():
            return False
        copying = self._context.metrics.look().copying
        ends = ((tp, end) for tp, end in self._ends.items() if tp in self._selected)
        return all((copying.positions.get(tp) or 0) >= end for tp, end in ends)
