"""Keeps the executors of a running flow to the limits of its configuration in force."""

from collections.abc import Iterator

from replication.config.limits import Limit
from replication.flows.context import FlowContext
from replication.model import NewEvent
from replication.spark.acknowledged import NOT_REPORTED, await_heard, is_reported
from replication.spark.limits import limit_uses, set_limits

HEAR_SECONDS = 3.0
"""How long a generation waits until its executors know the limits, before it starts."""


def apply_limits(context: FlowContext, *, waits: bool = False) -> None:
    """Tells the executors the limits in force, as far as these are news; they hear it in 0.5 s.

    Each is told for those of the running topics that it covers, so a generation that brings other
    topics calls this as well.

    Args:
        context: The flow, whose board has the running topics.
        waits: Whether to wait until the executors know it.
    """
    limits, board = context.config.limits, context.board
    if not limits and not board.limits:
        return
    if not is_reported(context.spark):
        text = f"{context.config.flow} is not limited to {_text(limits)}: {NOT_REPORTED}"
        context.log.error("limit_refused", text=text)
        return
    running = board.look().copying.topics
    covered = [
        (limit, {topic: running[topic] for topic in running if limit.covers(topic)})
        for limit in limits
    ]
    told = [(limit, topics) for limit, topics in covered if topics or limit.topics is None]
    are_news = set_limits(context.jvm, context.config.flow, told)
    before = board.limits
    board.limits = limits
    board.told_limits = tuple(limit for limit, _ in told)
    if are_news and waits:
        await_heard(context.spark, HEAR_SECONDS)
    context.tables.record_events(context.config.flow, _news(context, before))


def _news(context: FlowContext, before: tuple[Limit, ...]) -> Iterator[NewEvent]:
    """Yields an event for each limit that begins or ends; *before* are those of the last call."""
    flow, limits = context.config.flow, context.config.limits
    known = {limit.topics: limit for limit in before}
    for limit in limits:
        if (old := known.get(limit.topics)) != limit:
            earlier = "" if old is None else f", and no longer to {old}"
            yield NewEvent("limited", f"{flow} is limited to {limit}{earlier}", "keep")
    scopes = {limit.topics for limit in limits}
    for limit in before:
        if limit.topics not in scopes:
            yield NewEvent("limit-ended", f"{flow} is no longer limited to {limit}", "keep")


def waits_for_limit(context: FlowContext) -> bool:
    """Returns whether records of the flow wait for a limit, by the executors' last reports."""
    if not context.board.told_limits:
        return False
    return any(use.is_waiting for use in limit_uses(context.jvm, context.config.flow))


def _text(limits: tuple[Limit, ...]) -> str:
    return ", ".join(map(str, limits))
