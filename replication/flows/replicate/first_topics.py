"""Records what is on the source when a flow first starts, for ``auto.offset.reset=latest``."""

from replication.flows.context import FlowContext
from replication.flows.replicate.map_writer import MapWriter
from replication.state.first_topics import FIRST_TOPICS, first_start_of, rows_of
from replication.topics.topic_plan import TopicPlan


class FirstTopics:
    """The topics before a look at them: one that is born during the look is a later one.

    Does nothing but at the first start of a flow with ``latest``.

    Args:
        context: The flow.
        stored: The offset map.

    Raises:
        ClusterError: The source does not answer.
    """

    def __init__(self, context: FlowContext, stored: MapWriter) -> None:
        self._context = context
        self._stored = stored
        self._is_due = context.config.auto_offset_reset == "latest" and stored.first is None
        self._names = context.source.topic_names() if self._is_due else set[str]()

    def record(self, plan: TopicPlan) -> None:
        """Records them, and where the partitions that *plan* selects end.

        Raises:
            ClusterError: The source does not answer.
            StateError: The table cannot be written.
        """
        if not self._is_due:
            return
        context = self._context
        ends = context.source.log_ends(plan.partitions, context.config.isolation)
        rows = rows_of(
            context.config.flow,
            self._names,
            plan.source_ids,
            {tp: ends.get(tp) for tp in (*plan.partitions, *plan.leaderless)},
        )
        context.tables.append(FIRST_TOPICS, rows)
        self._stored.first = first_start_of(rows, has_started=True)
