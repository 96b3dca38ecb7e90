"""Watches partitions that do not move although their log goes on: markers only, or a stall.

A Real-Time batch ends after its last record. Where only transaction markers or aborted records
follow, the position would stay before them until retention deletes them, and then look as if
records had been deleted. A stretch that transforms drop as a whole is the same. Where records
follow, a cluster holds the partition up without an error: the producer waits for its partition's
leader for as long as it takes.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from replication.config.limits import Limit
from replication.flows.context import FlowContext
from replication.model import NewEvent, TopicPartition
from replication.offsets.pending import PendingRuns
from replication.positions.expire import with_records
from replication.spark.acknowledged import (
    NOT_REPORTED,
    await_heard,
    is_reported,
    limit_uses,
    pause_partitions,
    set_limits,
)
from replication.topics.topic_plan import TopicPlan

# Keeps the executors of a running flow to the limits of its configuration in force.

HEAR_SECONDS = 3.0
"""How long a generation waits until its executors know the limits, before it starts."""


def apply_limits(context: FlowContext, *, waits: bool = False) -> None:
    """Tells the executors the limits in force, as far as these are news; they hear it in 0.5 s.

    Each is told for those of the running topics that it covers, so a generation that brings other
    topics calls this as well. The first one takes back what they were told for a flow of this name
    that has ended: they go by the name, and the driver's JVM may outlive a flow, and its Python.
    """
    limits, metrics = context.config.limits, context.metrics
    is_first = metrics.limits is None
    if not (limits or metrics.limits or is_first):
        return
    if not is_reported(context.spark):
        if limits:
            named = ", ".join(map(str, limits))
            text = f"{context.config.flow} is not limited to {named}: {NOT_REPORTED}"
            context.log.error("limit_refused", text=text)
        return
    running = metrics.look().copying.topics
    covered = [
        (limit, {topic: running[topic] for topic in running if limit.covers(topic)})
        for limit in limits
    ]
    told = [(limit, topics) for limit, topics in covered if topics or limit.topics is None]
    are_news = set_limits(context.jvm, context.config.flow, told)
    if is_first:
        are_news |= pause_partitions(context.spark, context.config.flow, ())
    before = metrics.limits or ()
    metrics.limits = limits
    metrics.told_limits = tuple(limit for limit, _ in told)
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
    if not context.metrics.told_limits:
        return False
    return any(use.is_waiting for use in limit_uses(context.jvm, context.config.flow))


SEARCHED_OFFSETS = 10_000
"""How far one look goes; the next one continues from there."""

SEARCHED_BY_SPARK = 1_000_000
"""How far it goes where transforms may drop all of it, shared among these partitions."""

FEW_OFFSETS = 100
MARKER_SECONDS = 4.5
"""How long a partition stands before a few offsets until they are read: one look at the ends."""

STALLED_SECONDS = 120
"""How long a partition may stand before records. Where executors do not report, positions move at
the end of a batch only."""


@dataclass(slots=True)
class _Seen:
    """A position that has not changed since a time, and the source's log end at the last look."""

    upstream: int
    since: float
    end: int
    is_recorded: bool = False


class IdlePartitions:
    """The partitions of one generation that stand before their log end without moving."""

    def __init__(self, context: FlowContext, plan: TopicPlan) -> None:
        self._context = context
        self._plan = plan
        self._seen: dict[TopicPartition, _Seen] = {}
        self._near: dict[TopicPartition, tuple[int, float]] = {}  # where, and since when
        self._left_out: Collection[TopicPartition] = ()

    def leave_out(self, partitions: Collection[TopicPartition]) -> None:
        """Takes *partitions* for paused: nobody expects that they move."""
        for tp in {*partitions, *self._left_out}:
            self._seen.pop(tp, None)
        self._left_out = partitions

    def check(self, pending: PendingRuns, now: float) -> None:
        """Looks at all partitions that have not moved since the last call.

        Moves them over offsets without records. Records an event for each that stands before
        records for too long, once.
        """
        awaits_schemas = bool(self._context.refused_schemas.waiting)
        if awaits_schemas or waits_for_limit(
            self._context
        ):  # a task that waits holds up all of its partitions
            for waiting in self._seen.values():
                waiting.since = now
        ends = self._ends()
        spans: dict[TopicPartition, tuple[int, int]] = {}
        for tp, position in pending.positions().items():
            if tp in self._left_out:
                continue
            at, end = position.upstream, ends.get(tp, position.upstream)
            seen = self._seen.get(tp)
            if seen is None or seen.upstream != at or at >= end:
                self._seen[tp] = _Seen(at, now, end)
            elif seen.end == end or tp.topic in self._plan.transforms or self._is_late(tp, now):
                spans[tp] = (at, end)
        changed = {tp for tp in spans if tp.topic in self._plan.transforms}
        share = max(SEARCHED_OFFSETS, SEARCHED_BY_SPARK // max(1, len(changed)))
        spans = {
            tp: (at, min(end, at + (share if tp in changed else SEARCHED_OFFSETS)))
            for tp, (at, end) in spans.items()
        }
        filled = with_records(self._context, spans)
        for tp in spans.keys() - filled:
            pending.skip(tp, spans[tp][1])
        stalled = {tp for tp in filled if self._is_late(tp, now)}
        self._context.tables.record_events(
            self._context.config.flow, [self._stalled(tp, ends[tp], now) for tp in sorted(stalled)]
        )
        for tp, seen in self._seen.items():
            seen.end = ends.get(tp, seen.end)
            seen.is_recorded = seen.is_recorded or tp in stalled

    def pass_markers(
        self, pending: PendingRuns, ends: Mapping[TopicPartition, int], now: float
    ) -> None:
        """Moves partitions over the few offsets that follow them, where these hold no record.

        A transaction's marker has an offset, so that a partition at its end seemed to lag by one.
        """
        spans: dict[TopicPartition, tuple[int, int]] = {}
        for tp, position in pending.positions().items():
            at, end = position.upstream, ends.get(tp, -1)
            if not 0 < end - at < FEW_OFFSETS or tp in self._left_out:
                self._near.pop(tp, None)
            elif tp not in self._near or self._near[tp][0] != at:
                self._near[tp] = at, now
            elif now - self._near[tp][1] >= MARKER_SECONDS:
                spans[tp] = at, end
        filled = with_records(self._context, spans)
        for tp, (at, end) in spans.items():
            self._near[tp] = at, inf  # what is found there stays, so that it is read once
            if tp not in filled:
                pending.skip(tp, end)

    def _ends(self) -> Mapping[TopicPartition, int]:
        """Returns where the logs end: as the view has seen it a moment ago, else as of now."""
        seen, partitions = self._context.metrics.ends, self._plan.partitions
        if seen.keys() >= set(partitions):
            return seen
        return self._context.source.log_ends(partitions, self._context.config.isolation)

    def _is_late(self, tp: TopicPartition, now: float) -> bool:
        seen = self._seen[tp]
        return now - seen.since >= STALLED_SECONDS and not seen.is_recorded

    def _stalled(self, tp: TopicPartition, end: int, now: float) -> NewEvent:
        flow, remote = self._context.config.flow, self._plan.topics[tp.topic]
        at, seconds = self._seen[tp].upstream, round(now - self._seen[tp].since)
        text = (
            f"{tp} has been at offset {at} for {seconds} s, although {flow.source} has offsets to "
            f"{end}: check the brokers that lead it, and those that lead {remote}-{tp.partition} "
            f"on {flow.target}. It resumes on its own once they answer"
        )
        columns = {**tp._asdict(), "offset_from": at, "offset_until": end}
        return NewEvent("stalled", text, "retry", columns)
