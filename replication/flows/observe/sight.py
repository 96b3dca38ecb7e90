"""Makes an observation of one flow of what its own parts have noted. Asks nobody."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final, get_args

from replication.config.limits import Limit
from replication.config.tree import FlowConfig
from replication.figures.clocks import MOST_SKEW_SECONDS, jumped
from replication.figures.histogram import Histogram
from replication.figures.observation import (
    ClusterFigures,
    EventRow,
    GroupFigures,
    Observation,
    TopicFigures,
    TopicState,
)
from replication.figures.recent import Recent
from replication.figures.registry import BOUNDED, WHOLE_FLOW
from replication.flows.board import Copying, Figures
from replication.flows.context import FlowContext
from replication.flows.observe.awaited import AwaitedHeartbeats
from replication.flows.observe.clocks import SkewOf
from replication.flows.observe.conditions import RECENT_SECONDS, Conditions, FlowFacts
from replication.flows.observe.groups import GroupLooks
from replication.flows.observe.partitions import Partitions, Standing
from replication.flows.observe.topics import RATE_SECONDS, TopicLooks
from replication.flows.publish.look import LEASED, look_at
from replication.model import Job, runs
from replication.spark.kafka_options import named, producer_client_id
from replication.spark.limits import LimitUse
from replication.spark.reported_figures import Reported
from replication.spark.session import task_slots

SHOWN_EVENTS: Final = 20


class FlowSight:
    """One flow, look by look. Used by one thread; what it returns does not change.

    Args:
        context: The flow.
        job: What the process runs.
        skew_of: Tells how far the clock of a cluster is ahead, by its alias.
        beat_seconds: How often the file lets something emit heartbeats to the source; None if
            it does not.

    Attributes:
        kept: Topics that the target keeps all of by now, although it kept less before.
    """

    def __init__(
        self,
        context: FlowContext,
        job: Job,
        skew_of: SkewOf = lambda _alias: None,
        beat_seconds: float | None = None,
    ) -> None:
        self.context = context
        self.kept = frozenset[str]()
        self._skew_of = skew_of
        self._heartbeats = AwaitedHeartbeats(beat_seconds)
        self.partitions = Partitions()
        self.topics = TopicLooks()
        self._job = job
        self._groups = GroupLooks()
        self._conditions = Conditions()
        self._produced = Recent()
        self._ends = 0
        self._restarts = deque[float]()
        self._counted = 0

    @property
    def config(self) -> FlowConfig:
        """The flow's configuration in force."""
        return self.context.config

    @property
    def copying(self) -> Copying:
        """What is copied."""
        return self.context.board.look().copying

    def look(self, now: float, reported: Reported | None) -> Observation:
        """Returns what is known at the `steady` time *now*.

        Args:
            now: The time.
            reported: What executors have reported; None if they do not.
        """
        board, ahead = replace(self.context.board.look(), at=now), jumped()
        copying = board.copying
        uses = () if reported is None else reported.limits
        awaited = self.context.refused_schemas.waiting  # topics that wait for schemas
        is_waiting = bool(awaited) or any(use.is_waiting for use in uses)
        leaderless = self.context.outages.leaderless
        standings = self.partitions.look(now, copying, leaderless, ahead, is_waiting=is_waiting)
        topics = self.topics.look(now, board, standings, reported)
        lags = {one.tp: one.lag for one in standings if one.lag is not None}
        groups = self._groups.look(now, board.round, self.partitions.ends, lags)
        rates = self._rates(now, copying)
        figures = {**rates, **_of_topics(topics), **_of_reports(reported)}
        figures |= _of_board(now, board, ahead) | {"schemas_waiting": float(len(awaited))}
        figures |= of_heartbeats(topics, self.config.policy.heartbeats_topic())
        labelled = self._labelled(board, standings, reported)
        facts = self._facts(board, figures, topics, groups, reported)
        throttles = labelled.get("throttle_seconds", {})
        return replace(
            look_at(self.context, self._job),
            as_of=now + ahead,
            measured=now,
            conditions=self._conditions.look(replace(facts, jumped=ahead, throttles=throttles)),
            version=_version(),
            figures=figures,
            histograms=self._histograms(board, reported),
            labelled=labelled,
            topics=topics,
            groups=groups,
            events=tuple(self._events()),
            clusters=tuple(self._clusters()),
        )

    def _histograms(self, board: Figures, reported: Reported | None) -> dict[str, Histogram]:
        round_ = board.round
        waited = {} if round_.at is None else {"checkpoint_seconds": round_.waited}
        return {**self.topics.histograms(reported), **waited}

    def _facts(
        self,
        board: Figures,
        figures: Mapping[str, float],
        topics: tuple[TopicFigures, ...],
        groups: tuple[GroupFigures, ...],
        reported: Reported | None,
    ) -> FlowFacts:
        now, aliases = board.at, (self.config.source.alias, self.config.target.alias)
        self._restarts.extend([now] * (board.copying.restarts - self._counted))
        self._counted = board.copying.restarts
        while self._restarts and now - self._restarts[0] >= RECENT_SECONDS:
            self._restarts.popleft()
        silences, counts = self.context.outages.silences, self.context.tables.counts
        return FlowFacts(
            self.config.flow,
            now,
            board,
            figures,
            topics,
            groups,
            {alias: silence.reason for alias, silence in silences.items() if silence is not None},
            counts.events(self.config.flow),
            counts.writes(),
            self.config.status.slo_lag_seconds,
            is_reported=reported is not None or not board.copying.generations,
            restarts=len(self._restarts),
            skews={alias: skew for alias in aliases if (skew := self._skew_of(alias))},
            ahead=_ahead(board.copying),
            heartbeat_age=self._late_heartbeats(board, figures),
            keeps_less={k: v for k, v in self.context.board.losses.items() if k not in self.kept},
        )

    def _late_heartbeats(self, board: Figures, figures: Mapping[str, float]) -> float | None:
        if self.config.mode == "drain":  # which has one of each pair
            return None
        topic = self.config.policy.heartbeats_topic()
        newest = figures.get("heartbeat_timestamp_seconds")
        seen = None if newest is None else newest - jumped()
        copying = board.copying
        is_copied = topic in copying.topics and topic not in copying.paused_topics
        return self._heartbeats.look(board.at, seen, is_copied=is_copied)

    def _rates(self, now: float, copying: Copying) -> dict[str, float]:
        """Returns how fast the flow goes, and how long it takes to catch up."""
        found, ends = self.topics.rates(now, copying), self.partitions.ends
        if not ends:
            return found
        if len(ends) != self._ends:  # those of other partitions do not tell what was produced
            self._produced = Recent()
            self._ends = len(ends)
        self._produced.add(now, sum(ends.values()))
        produced = self._produced.per_second(RATE_SECONDS)
        known = ((end, copying.next_offset(tp)) for tp, end in ends.items())
        behind = sum(max(0, end - at) for end, at in known if at is not None)
        if not behind:
            found["catch_up_seconds"] = 0.0
        elif produced is not None and "records_per_second" in found:
            gained = found["records_per_second"] - produced[0]
            if gained > 0:
                found["catch_up_seconds"] = behind / gained
        return found

    def _labelled(
        self, board: Figures, standings: Iterable[Standing], reported: Reported | None
    ) -> dict[str, Mapping[str, float]]:
        """Returns the figures with one bounded label; each counter of them from 0 on."""
        counts = self.context.tables.counts
        events, writes = counts.events(self.config.flow), counts.writes()
        known: Mapping[str, Mapping[str, float]] = {
            "restarts_total": {"records": board.copying.restarts},
            "events_total": events.kinds,
            "given_up_offsets_total": {str(cause): n for cause, n in events.given_up.items()},
            "state_writes_total": {table: one.commits for table, one in writes.items()},
            "state_write_failures_total": {table: one.failures for table, one in writes.items()},
            "state_write_seconds_total": {table: one.seconds for table, one in writes.items()},
        }
        states = Counter[TopicState](one.state for one in standings)
        states["set-aside"] += len(board.aside)
        found: dict[str, Mapping[str, float]] = {
            name: {value: known[name].get(value, 0) for value in values}
            for name, values in BOUNDED.items()
        }
        found["partitions"] = {state: states[state] for state in get_args(TopicState)}
        found["lease_held"] = self._leases()
        found["source_tasks"] = {str(source): n for source, n in board.copying.tasks.items()}
        if reported is not None:
            found |= of_limits(self.context.board.told_limits, reported.limits)
            found["executors"] = {"living": reported.executors}
            found["task_slots"] = self._slots(reported)
            found["throttle_seconds"] = _throttles(self.config, reported)
            if reported.use is not None:
                found["jvm_heap_bytes"] = reported.use.heap
        return found

    def _leases(self) -> dict[str, int]:
        """Returns which of the parts that this process runs, and that have a lease, are its own."""
        parts = [part for part in LEASED.values() if runs(self._job, part)]
        held = {LEASED[name] for name, lease in list(self.context.held.items()) if lease.is_held}
        return {part: int(part in held) for part in parts}

    def _slots(self, reported: Reported) -> dict[str, int]:
        """Returns how many task slots the flow uses, and how many no flow does."""
        found, spark = {"used": reported.tasks}, self.context.started_spark
        if spark is not None:
            found["free"] = max(0, task_slots(spark) - reported.all_tasks)
        return found

    def _events(self) -> Iterator[EventRow]:
        last = self.context.tables.counts.events(self.config.flow).last
        for at, event in list(last)[: -SHOWN_EVENTS - 1 : -1]:
            yield EventRow(at, event.kind, event.text, event.reaction, event.details)

    def _clusters(self) -> Iterator[ClusterFigures]:
        for alias, silence in self.context.outages.silences.items():
            since = None if silence is None else silence.since.timestamp()
            skew = self._skew_of(alias)
            seconds = None if skew is None else round(skew.seconds, 3)
            yield ClusterFigures(alias, silence is None, since, seconds)


def _throttles(config: FlowConfig, reported: Reported) -> dict[str, float]:
    """Returns how long quotas make requests of the flow wait, by cluster."""
    flow, waits = config.flow, reported.throttles
    ids = {
        flow.source: named(config.source.consumer, flow)["client.id"],
        flow.target: producer_client_id(config.target.producer, flow),
    }
    return {alias: waits[client] for alias, client in ids.items() if client in waits}


def _of_topics(topics: Iterable[TopicFigures]) -> dict[str, float]:
    """Returns the lag of the flow, over the topics whose lag is known."""
    known = [topic.figures for topic in topics]
    figures: dict[str, float] = {}
    for name, joined in JOINED.items():
        values = [one[name] for one in known if name in one]
        if values:
            figures[name] = joined(values)
    return figures


JOINED: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {
    "lag_records": sum,
    "lag_seconds": max,
    "unpaused_lag_seconds": max,
    "lag_bytes": sum,
    "rpo_records": sum,
    "rpo_seconds": max,
    "retention_headroom_seconds": min,
}


def of_heartbeats(topics: Iterable[TopicFigures], name: str) -> dict[str, float]:
    """Returns how the source's heartbeats arrive; nothing if the flow does not copy them now."""
    for topic in topics:
        is_copied = topic.topic == name and topic.state != "paused"
        if is_copied and "copied_until_timestamp_seconds" in topic.figures:
            found = {"heartbeat_timestamp_seconds": topic.figures["copied_until_timestamp_seconds"]}
            if "0.5" in topic.latency:
                found["heartbeat_latency_seconds"] = topic.latency["0.5"]
            return found
    return {}


def _ahead(copying: Copying) -> dict[str, float]:
    """Returns the topics whose records have times of the future, and how far they are ahead."""
    newest: dict[str, int] = {}
    for tp, at in copying.source_ms.items():
        newest[tp.topic] = max(at, newest.get(tp.topic, at))
    now = time.time()
    found = {topic: at / 1000 - now for topic, at in newest.items() if topic in copying.topics}
    return {topic: seconds for topic, seconds in found.items() if seconds > MOST_SKEW_SECONDS}


def _of_board(now: float, board: Figures, jumped: float) -> dict[str, float]:
    copying, round_ = board.copying, board.round
    newest, written = copying.newest_at, copying.map_written_at
    figures: dict[str, float] = {"checkpoints_total": round_.emitted}
    if newest is not None:
        figures["last_copy_timestamp_seconds"] = newest + jumped
    if written is not None:
        figures["map_written_timestamp_seconds"] = written + jumped
        is_behind = newest is not None and newest > written
        figures["map_age_seconds"] = max(0.0, now - written) if is_behind else 0.0
    if round_.at is not None:
        figures["checkpoint_round_timestamp_seconds"] = round_.at + jumped
    return figures


def of_limits(limits: Iterable[Limit], uses: Iterable[LimitUse]) -> dict[str, Mapping[str, float]]:
    """Returns the figures of the *limits* of a flow, by their topics; `WHOLE_FLOW` for all."""
    found = defaultdict[str, dict[str, float]](dict)
    for limit, use in zip(limits, uses, strict=False):  # new ones may not be known yet
        scope = WHOLE_FLOW if limit.topics is None else limit.topics
        if limit.bytes_per_second is not None:
            found["limit_bytes_per_second"][scope] = limit.bytes_per_second
            found["limit_used_bytes_per_second"][scope] = use.bytes_per_second
        if limit.records_per_second is not None:
            found["limit_records_per_second"][scope] = limit.records_per_second
            found["limit_used_records_per_second"][scope] = use.records_per_second
        found["limit_waiting"][scope] = float(use.is_waiting)
    return dict(found)


def _of_reports(reported: Reported | None) -> dict[str, float]:
    if reported is None:
        return {}
    figures: dict[str, float] = {
        "in_flight_records": reported.in_flight,
        "report_age_seconds": reported.silent_seconds,
    }
    if reported.use is not None:
        figures["jvm_gc_seconds_total"] = reported.use.gc_seconds
        figures["jvm_cpu_seconds_total"] = reported.use.cpu_seconds
    return figures


@cache
def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("kafka-replication-on-spark")
    return ""
