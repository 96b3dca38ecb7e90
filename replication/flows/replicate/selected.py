"""Says where a flow's list of topics selects nothing: it is probably misspelt."""

from replication.errors import FlowError
from replication.flows.context import FlowContext
from replication.log import Log
from replication.model import NewEvent
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)


class SelectionReport:
    """What was reported of one flow's list."""

    def __init__(self, context: FlowContext) -> None:
        self._context, self._config = context, context.config
        self._logged: set[str] = set()
        self._is_empty = False

    def report(self, plan: TopicPlan) -> None:
        """Logs each item that selects nothing once; that the whole list does is an event."""
        flow = self._config.flow
        found = [("topics_not_found", text) for text in plan.warnings]
        for event, text in [*found, ("cluster_ids_equal", plan.shared_id)]:
            if text and text not in self._logged:
                self._logged.add(text)
                log.warning(event, flow=flow, text=text)
        if plan.is_empty and not self._is_empty:
            text = f"no topic of {flow.source} matches the list topics"
            self._context.tables.record_events(flow, [NewEvent("no-topics", text, "retry")])
        self._is_empty = plan.is_empty

    def error(self) -> FlowError | None:
        """The error of a drain that has found none of the topics that its list names."""
        if not self._is_empty or self._config.allow_no_topics:
            return None
        flow = self._config.flow
        return FlowError(
            f"{flow}: no topic of {flow.source} matches the list topics, nothing was copied; "
            "correct the list, or write replication.drain.empty.allowed: true"
        )
