"""Says which items of a flow's lists have no effect, and which topics look like copies."""

from collections import defaultdict
from collections.abc import Mapping

from replication.errors import FlowError
from replication.flows.context import FlowContext
from replication.kafka.call import join_names
from replication.log_events import Event
from replication.model import NewEvent
from replication.topics.topic_plan import TopicPlan


class SelectionReport:
    """What was reported of one flow's list."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._flow = context.config.flow
        self._logged: set[str] = set()
        self._is_empty = False

    def report(self, plan: TopicPlan) -> None:
        """Logs each item that selects nothing, once; records an event if none selects anything."""
        flow = self._flow
        for text in plan.warnings:
            self._log_once("topics_not_found", text)
        self._log_once("cluster_ids_equal", plan.shared_id)
        self._report_left_out(plan.left_out)
        if plan.is_empty and not self._is_empty:
            text = f"no topic that {flow.source} shows matches the list topics"
            if plan.left_out:
                text += f", except those that look like copies: {join_names(plan.left_out)}"
            self._context.tables.record_events(flow, [NewEvent("no-topics", text, "retry")])
        self._is_empty = plan.is_empty

    def log_none(self) -> None:
        """Logs that the flow has nothing to copy."""
        text = f"{self._flow.source} shows no topic that this flow copies"
        self._context.log.warning("no_topics", text=text)

    def _log_once(self, event: Event, text: str) -> None:
        if text and text not in self._logged:
            self._logged.add(text)
            self._context.log.warning(event, text=text)

    def _report_left_out(self, reasons: Mapping[str, str]) -> None:
        """Logs the topics that look like copies, once, in a line for each reason."""
        by_reason = defaultdict(list)
        for topic, reason in reasons.items():
            if topic not in self._logged:
                self._logged.add(topic)
                by_reason[reason].append(topic)
        for reason, topics in by_reason.items():
            text = f"not copied: {join_names(topics)}: {reason}"
            self._context.log.warning("topics_left_out", text=text)

    def error(self) -> FlowError | None:
        """Returns the error of a drain that has found none of the topics that its list names."""
        if not self._is_empty or self._context.config.drain_empty_allowed:
            return None
        flow = self._flow
        return FlowError(
            f"{flow}: no topic that {flow.source} shows matches the list topics, so none was "
            "copied; correct the list, or write replication.drain.empty.allowed: true"
        )
