"""Tries now what a running flow has set aside, and says what came of it."""

from collections.abc import Collection
from typing import Final

from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.flow_answers import LATE_SECONDS, FlowAnswer, FlowAnswers, is_of_before
from replication.control.lease_groups import LeaseGroups
from replication.errors import NoAnswerError
from replication.model import Flow
from replication.state.requests import RetryRequest, request_retry

MOST_SECONDS: Final = 30.0
"""How long the next word of the flow is waited for, whatever interval the last one claims."""


def aside_of(answer: FlowAnswer, topics: Collection[str]) -> dict[str, str] | None:
    """Returns what of *topics* is set aside by what a flow says now; None if it says nothing."""
    if answer.heard is None or is_of_before(answer.state):
        return None
    return {name: why for name, why in answer.aside.items() if name in topics or not topics}


def retry_topics(
    mirror: MirrorConfig,
    config: FlowConfig,
    topics: Collection[str],
    timeout_seconds: float,
    reason: str,
) -> FlowAnswer | None:
    """Asks the process that runs the flow to try *topics* now, or without any all of them.

    Returns:
        How the flow is then; None if no process runs it, whose next start tries everything.

    Raises:
        NoAnswerError: The flow says that nothing of it is set aside.
        StateError: The process did not try in time, or the state directory cannot be written.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    flow = config.flow
    with LeaseGroups() as coordinators, FlowAnswers(mirror, [config]) as answers:

        def idle(_flows: Collection[Flow]) -> Collection[Flow]:
            return [flow] if coordinators.ask([config])[flow].members == frozenset() else []

        (before,) = answers.ask(are_tables_wanted=False)
        known = aside_of(before, topics)
        if known is not None and not (known and known.keys() >= {*topics}):
            names = " and ".join(sorted({*topics} - known.keys())) or "anything"
            raise NoAnswerError(f"{flow} does not say that {names} is set aside: nothing to try")
        asked = RetryRequest(tuple(topics))
        if not request_retry(mirror.access, flow, asked, timeout_seconds, reason, idle):
            return None
        interval = before.last.entry.interval if before.last.entry else 0.0
        seconds = min(MOST_SECONDS, interval + LATE_SECONDS)
        return answers.ask(seconds, are_tables_wanted=False)[0]
