"""What is logged where topics start: what the target does not keep or take, and old records."""

from collections.abc import Mapping
from contextlib import suppress

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.model import Position, TopicPartition
from replication.positions.old_records import describe_old_records
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import topic_losses, unwritable_topics


class StartNotes:
    """The notes of one flow, each logged once."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._has_looked_at_age = False
        self._unwritable = set[str]()

    def say_losses(self, plan: TopicPlan) -> None:
        """Logs what the target would not keep, once per topic."""
        losses = topic_losses(plan.topics, self._context.source, self._context.target)
        for text in self._context.board.note_losses(plan.topics, losses):
            self._context.log.warning("target_keeps_less", text=text)

    def say_started(self, plan: TopicPlan, positions: Mapping[TopicPartition, Position]) -> None:
        """Logs what can be known when the query runs, so that it holds up no start."""
        self._say_unwritable(plan)
        self._say_age(plan, positions)

    def say_added(self, plan: TopicPlan) -> None:
        """Logs the same of topics that come while others are copied, and which take no records."""
        self.say_losses(plan)
        self._say_unwritable(plan)

    def _say_unwritable(self, plan: TopicPlan) -> None:
        """Logs which remote topics take no records, once each: producers wait for that silently."""
        with suppress(ClusterError):  # the query meets that itself, and says it
            found = set(unwritable_topics(plan, self._context.target).values())
            for text in sorted(found - self._unwritable):
                self._context.log.warning("target_takes_nothing", text=text)
            self._unwritable |= found

    def _say_age(self, plan: TopicPlan, positions: Mapping[TopicPartition, Position]) -> None:
        """Logs at the first start whether the target's brokers should not be restarted now."""
        if self._has_looked_at_age:
            return
        self._has_looked_at_age = True
        try:
            text = describe_old_records(self._context, plan, positions)
        except ClusterError as error:
            self._context.log.info("age_unknown", text=error)
            return
        if text:
            self._context.log.warning("old_records", text=text)
