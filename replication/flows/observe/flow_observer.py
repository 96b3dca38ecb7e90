"""Makes an observation of one flow of what its own parts have noted. Asks nobody."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.metadata import PackageNotFoundError, version
from typing import Final, get_args

from replication.config.limits import Limit
from replication.config.tree import FlowConfig
from replication.figures.histogram import Histogram, Recent, RecentDurations
from replication.figures.lag import MOST_SKEW_SECONDS, Lag, PartitionLag, jumped
from replication.figures.observation import (
    Answer,
    ClusterFigures,
    EventRow,
    GroupFigures,
    Observation,
    PartitionFigures,
    TopicFigures,
    TopicState,
)
from replication.figures.registry import BOUNDED, WHOLE_FLOW, names_at
from replication.flows.context import FlowContext
from replication.flows.flow_metrics import Copying, Figures, GroupRound, topic_of
from replication.flows.observe.clocks import SkewOf
from replication.flows.observe.conditions import RECENT_SECONDS, Conditions, FlowFacts
from replication.flows.publisher import LEASED, look_at
from replication.groups.positions import GroupPosition
from replication.model import Job, TopicPartition, runs
from replication.offsets.map import Ahead, Bounded, NoAnswer
from replication.spark.acknowledged import LimitUse, Reported
from replication.spark.kafka_options import named, producer_client_id
from replication.spark.session import task_slots

LATE_SECONDS: Final = 60.0
LATE_BEATS: Final = 3


class AwaitedHeartbeats:
    """The heartbeats of one flow, look by look; all times are `steady` ones.

    They are awaited where the file lets something emit them to the source, and where one has
    arrived: whoever has sent it may be on another machine.

    Args:
        beat_seconds: How often the file lets something emit them; None if it does not.
    """

    def __init__(self, beat_seconds: float | None) -> None:
        self._beat_seconds = beat_seconds
        self._since: float | None = None

    def look(self, now: float, newest: float | None, *, is_copied: bool) -> float | None:
        """Returns how long none has arrived, if that is too long.

        *newest* is the time of the newest one that has arrived.
        """
        if not is_copied or (newest is None and self._beat_seconds is None):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        age = now - max(self._since, self._since if newest is None else newest)
        return age if age > max(LATE_SECONDS, LATE_BEATS * (self._beat_seconds or 0)) else None


# How far each partition of a flow is behind. Pure: its caller has asked the cluster.
#
# The last known end of a log still counts while the source does not answer, and what is set aside
# counts by its last known position. Where either is unknown, the lag of all is at least that of the
# rest, and never 0.

STALLED_SECONDS: Final = 120.0
"""How long a partition may stand before records."""

MISSED_LOOKS: Final = 2
"""After so many looks without an answer the end of a log is unknown: one may meet an election."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a partition stands at one look.

    The position is None if nothing of it was ever copied; the lag is None then, and if its end was
    never seen. *is_known*: whether the lag is that of now, and not only at least that.
    """

    tp: TopicPartition
    position: int | None
    end: int | None
    lag: Lag | None
    state: TopicState
    copied_until: float | None
    is_known: bool = True

    def is_at_rest_at(self, position: int | None, end: int | None, until: float | None) -> bool:
        """Returns whether these values are no news: where nothing waits, neither is time."""
        is_idle = self.state == "copying" and self.is_known and self.lag == Lag(0, 0.0)
        return is_idle and (position, end, until) == (self.position, self.end, self.copied_until)

    def figures(self) -> PartitionFigures:
        """Returns what is shown of the partition."""
        found: dict[str, float] = {"lag_unknown_partitions": int(not self.is_known)}
        if self.position is not None:
            found["position"] = self.position
        if self.end is not None:
            found["source_log_end"] = self.end
        if self.lag is not None and (self.is_known or self.lag.records):
            found["lag_records"] = self.lag.records
            if self.lag.seconds is not None:
                found["lag_seconds"] = self.lag.seconds
        if self.copied_until is not None:
            found["copied_until_timestamp_seconds"] = self.copied_until
        return PartitionFigures(self.tp.partition, self.state, found)


class Partitions:
    """The partitions of one flow, look by look.

    Args:
        slo_lag_seconds: A partition whose first backlog is less old has caught up.
    """

    def __init__(self, slo_lag_seconds: float = 30.0) -> None:
        self._slo = slo_lag_seconds
        self._caught_up: dict[TopicPartition, int] = {}  # what it began with, see `Copying.first`
        self._least: dict[TopicPartition, tuple[int, int, float]] = {}  # of which, and since when
        self.ends: dict[TopicPartition, int] = {}
        self._lags: dict[TopicPartition, PartitionLag] = {}
        self._stands: dict[TopicPartition, tuple[int, float]] = {}  # where, and since when
        self._last: dict[TopicPartition, Standing] = {}
        self._missed: dict[TopicPartition, int] = {}  # looks without an answer, since the last one

    def known(self, metrics: Figures) -> Collection[TopicPartition]:
        """Returns the partitions that are to be copied, whether anything copies them now, sorted.

        Those of a topic that its cluster does not describe any more are known by their positions.
        """
        wanted, aside = metrics.copying.wanted, metrics.aside
        kept = wanted | {tp for tp in metrics.copying.positions if tp.topic in aside}
        for gone in self._lags.keys() - kept:
            self.ends.pop(gone, None)
            self._stands.pop(gone, None)
            self._caught_up.pop(gone, None)
            self._least.pop(gone, None)
        if self._lags.keys() != kept:  # whoever asks about a backlog still reads the old ones
            self._lags = {tp: self._lags.get(tp) or PartitionLag() for tp in sorted(kept)}
        return self._lags.keys()

    def saw(self, at: float, ends: Mapping[TopicPartition, int]) -> None:
        """Notes where logs ended *at* a time; what did not answer is absent."""
        for tp, end in ends.items():
            if tp in self._lags:
                self._lags[tp].saw(at, end)
                self.ends[tp] = end
        self._missed = {tp: self._missed.get(tp, 0) + 1 for tp in self._lags.keys() - ends.keys()}

    def of_unknown_age(self, metrics: Figures) -> Iterator[tuple[TopicPartition, int, int]]:
        """Yields the partitions that began with a backlog, with their positions and ends.

        What is set aside comes last: the user may not read it, so that its age stays unknown.
        """
        copying, aside = metrics.copying, metrics.aside
        lags = sorted(self._lags.items(), key=lambda one: one[0] in aside or one[0].topic in aside)
        for tp, lag in lags:
            at, end = copying.positions.get(tp), self.ends.get(tp)
            is_backlog = lag.is_unknown and tp not in copying.source_ms and lag.lacks_record
            if is_backlog and at is not None and end is not None:
                yield tp, at, end

    def read(self, tp: TopicPartition, position: int, timestamp: float) -> None:
        """Notes the *timestamp* of the record at *position*; the topic may be gone by now."""
        if tp in self._lags:
            self._lags[tp].read(position, timestamp)

    def look(
        self,
        now: float,
        metrics: Figures,
        leaderless: Collection[TopicPartition],
        jumped: float = 0.0,
        *,
        is_waiting: bool = False,
    ) -> list[Standing]:
        """Returns where each partition stands *now*, sorted, but of topics that are gone.

        Args:
            now: The `steady` time, as in all other methods.
            metrics: What is copied, and what is set aside.
            leaderless: Partitions without a leader.
            jumped: How far the machine's clock, by which records have their times, was set ahead.
            is_waiting: Whether records of the flow wait for a limit: then nothing has stalled.
        """
        if is_waiting:
            self._stands = {tp: (position, now) for tp, (position, _) in self._stands.items()}
        found = {
            tp: self._standing(tp, now, metrics, jumped, is_leaderless=tp in leaderless)
            for tp in self.known(metrics)
            if tp.topic not in metrics.gone
        }
        self._last = found
        return list(found.values())

    def _standing(
        self,
        tp: TopicPartition,
        now: float,
        metrics: Figures,
        jumped: float,
        *,
        is_leaderless: bool,
    ) -> Standing:
        copying, aside = metrics.copying, metrics.aside
        position, end = copying.positions.get(tp), self.ends.get(tp)
        newest = copying.source_ms.get(tp)
        until = None if newest is None else newest / 1000
        last, is_paused = self._last.get(tp), tp in copying.paused
        is_aside = tp in aside or tp.topic in aside
        is_missed = self._missed.get(tp, 0) >= MISSED_LOOKS
        is_running = not (is_paused or is_leaderless or is_aside or is_missed)
        if last is not None and is_running and last.is_at_rest_at(position, end, until):
            return last
        lag: Lag | None = None
        state: TopicState = "copying"
        if position is not None:
            self._lags[tp].moved(position)
        if end is not None and position is not None:
            lag = self._lags[tp].look(now, None if until is None else until - jumped)
            state = self._state(tp, now, position, lag)
            if self._is_catching_up(tp, now, copying, lag) and state == "lagging":
                state = "catching-up"
        if is_paused or is_aside:  # nobody expects that it moves, now and right afterwards
            self._stands.pop(tp, None)
            state = "paused" if is_paused else "set-aside"
        elif is_leaderless:
            state = "leaderless"
        is_known = lag is not None and lag.seconds is not None and not is_missed
        return Standing(tp, position, end, lag, state, until, is_known)

    def _is_catching_up(self, tp: TopicPartition, now: float, copying: Copying, lag: Lag) -> bool:
        """Returns whether a first backlog has shrunk lately; at first, nobody knows yet."""
        began = copying.first.get(tp)
        if began is None or began == self._caught_up.get(tp):
            return False
        if lag.seconds is not None and lag.seconds <= self._slo:
            self._caught_up[tp] = began
            self._least.pop(tp, None)
            return False
        of, least, since = self._least.get(tp, (began, lag.records + 1, now))
        if lag.records < least or of != began:
            _, _, since = self._least[tp] = began, lag.records, now
        return now - since < STALLED_SECONDS

    def _state(self, tp: TopicPartition, now: float, position: int, lag: Lag) -> TopicState:
        if not lag.records:
            self._stands.pop(tp, None)
            return "copying"
        stood = self._stands.get(tp)
        if stood is None or stood[0] != position:
            stood = self._stands[tp] = (position, now)
        return "stalled" if now - stood[1] >= STALLED_SECONDS else "lagging"


# The figures of the topics of one flow, and their sums and rates.

RATE_SECONDS: Final = 60.0
BEHIND_SECONDS: Final = 60.0
SHARES: Final = {"0.5": 0.5, "0.99": 0.99, "1": 1.0}
WORST: Final[tuple[TopicState, ...]] = (
    "set-aside",
    "deleted",
    "leaderless",
    "stalled",
    "lagging",
    "catching-up",
    "paused",
    "copying",
)


class TopicLooks:
    """The topics of one flow, look by look.

    Attributes:
        headroom: Until the source deletes what is not copied, of some topics that lag, in seconds.
        behind: The topics that lag by more than a minute, and by how much.
        latencies: By remote topic, since the process began.
    """

    def __init__(self) -> None:
        self.headroom: Mapping[str, float] = {}
        self.behind: dict[str, float] = {}
        self._last: dict[str, tuple[object, TopicFigures]] = {}  # what it is made of
        self._grown: dict[str, Recent] = defaultdict(Recent)
        self._flow = Recent()
        self._gone: Collection[str] = ()
        self.latencies: dict[str, RecentDurations] = defaultdict(RecentDurations)

    def look(
        self, now: float, metrics: Figures, standings: Iterable[Standing], reported: Reported | None
    ) -> tuple[TopicFigures, ...]:
        """Returns the figures of each topic, in the order of their names."""
        for remote, latency in ({} if reported is None else reported.latencies).items():
            self.latencies[remote].add(now, latency)
        by_topic: dict[str, list[Standing]] = defaultdict(list)
        for one in standings:
            by_topic[one.tp.topic].append(one)
        reasons: dict[str, str] = {}
        for part, error in metrics.aside.items():
            reasons.setdefault(topic_of(part), str(error))
        self._gone = metrics.gone.keys() - reasons.keys()
        reasons |= {name: metrics.gone[name][0] for name in self._gone}
        names = sorted(by_topic.keys() | reasons.keys())
        found = tuple(
            self._topic(name, now, metrics.copying, by_topic[name], reasons.get(name))
            for name in names
        )
        self._last = {name: self._last[name] for name in names}
        lags = {topic.topic: topic.figures.get("lag_seconds", 0.0) for topic in found}
        self.behind = {name: lag for name, lag in lags.items() if lag > BEHIND_SECONDS}
        return found

    def rates(self, now: float, copying: Copying) -> dict[str, float]:
        """Returns the sums of the flow since the process began, and how fast they grow."""
        records, size = sum(copying.records.values()), sum(copying.bytes.values())
        self._flow.add(now, records, size)
        is_counted = copying.bytes.keys() >= {t for t, n in copying.records.items() if n}
        return _sums(self._flow, records, size if is_counted else None)

    def _topic(
        self, name: str, now: float, copying: Copying, standings: list[Standing], reason: str | None
    ) -> TopicFigures:
        last = self._last.get(name)
        remote = copying.topics.get(name) or copying.paused_topics.get(name)
        remote = remote or (last and last[1].remote)  # also between two generations
        records, size = copying.records.get(name, 0), copying.bytes.get(name)
        grown = self._grown[name]
        grown.add(now, records, size or 0)
        made_of = remote, records, size, reason, standings
        if last is not None and last[0] == made_of and _is_at_rest(last[1]):
            return last[1]
        is_bare = reason is not None and not standings
        figures = _sums(grown, records, size if records else 0) | lag_of(standings, int(is_bare))
        newest = [one.copied_until for one in standings if one.copied_until is not None]
        if newest:
            figures["copied_until_timestamp_seconds"] = max(newest)
        mean = grown.ratio()
        if size and mean is not None and "lag_records" in figures:
            figures["lag_bytes"] = figures["lag_records"] * mean
        elif figures.get("lag_records") == 0:
            figures["lag_bytes"] = 0
        if name in self.headroom and name in self.behind:
            figures["retention_headroom_seconds"] = self.headroom[name]
        states: set[TopicState] = {one.state for one in standings}
        if reason is not None:
            states.add("deleted" if name in self._gone else "set-aside")
        state: TopicState = next((one for one in WORST if one in states), "copying")
        partitions = tuple(one.figures() for one in standings)
        timed = self.latencies.get(remote or "")
        latency = {} if timed is None else timed.look(now).quantiles(SHARES)
        found = TopicFigures(name, remote, state, reason or "", figures, latency, partitions)
        self._last[name] = made_of, found
        return found


def _sums(grown: Recent, records: float, size: float | None) -> dict[str, float]:
    figures: dict[str, float] = {"records_total": records}
    if size is not None:
        figures["bytes_total"] = size
    rate = grown.per_second(RATE_SECONDS)
    if rate is not None:
        figures["records_per_second"] = rate[0]
        if size is not None:
            figures["bytes_per_second"] = rate[1]
    return figures


def _is_at_rest(topic: TopicFigures) -> bool:
    """Returns whether time alone changes nothing: no record waits, and none came of late."""
    figures = topic.figures
    is_still = figures.get("records_per_second") == 0 and figures.get("lag_records") == 0
    return is_still and not topic.latency


def lag_of(standings: Collection[Standing], bare: int = 0) -> dict[str, float]:
    """Returns the lag of partitions, and of *bare* topics of which no partition is known.

    Where something is unknown, it is at least that of the rest, and 0 is no answer.
    """
    if not standings and not bare:
        return {}
    unknown = bare + sum(not one.is_known for one in standings)
    figures: dict[str, float] = {"lag_unknown_partitions": unknown}
    lags = [one.lag for one in standings if one.lag is not None]
    if (records := sum(lag.records for lag in lags)) or not unknown:
        figures["lag_records"] = figures["rpo_records"] = records
    if (seconds := _longest(lags)) or not unknown:
        figures["lag_seconds"] = figures["rpo_seconds"] = seconds
    moving = [one for one in standings if one.state not in {"paused", "catching-up"}]
    unknown = bare + sum(not one.is_known for one in moving)
    seconds = _longest(one.lag for one in moving if one.lag is not None)
    if seconds or (moving and not unknown):
        figures["unpaused_lag_seconds"] = seconds
    return figures


def _longest(lags: Iterable[Lag]) -> float:
    return max((lag.seconds for lag in lags if lag.seconds is not None), default=0.0)


# The figures of the groups of a flow, from its last round of checkpoints.

_Commit = tuple[str, TopicPartition, int]


class GroupLooks:
    """The groups of one flow, round by round."""

    def __init__(self) -> None:
        self._untranslated: dict[_Commit, float] = {}  # since when

    def look(
        self,
        now: float,
        round_: GroupRound,
        standings: Mapping[TopicPartition, Standing],
    ) -> tuple[GroupFigures, ...]:
        """Returns the figures of each group, in the order of their names.

        What a group has committed in a partition that is `catching-up` has no copy yet, and nobody
        is late.
        """
        by_group: dict[str, list[GroupPosition]] = defaultdict(list)
        for position in round_.positions:
            by_group[position.group].append(position)
        catching_up = {tp for tp, one in standings.items() if one.state == "catching-up"}
        late = [p for p in round_.positions if p.upstream not in catching_up]
        waiting = {_commit(p) for p in late if isinstance(p.answer, NoAnswer)}
        self._untranslated = {
            commit: self._untranslated.get(commit, round_.at or now) for commit in waiting
        }
        found = (
            self._group(name, now, by_group[name], round_.ends, standings)
            for name in sorted(by_group)
        )
        blocked = round_.blocked
        if blocked is None:
            return tuple(found)
        return tuple(
            replace(one, figures={**one.figures, "group_blocked": float(one.group in blocked)})
            for one in found
        )

    def _group(
        self,
        group: str,
        now: float,
        positions: list[GroupPosition],
        ends: Mapping[TopicPartition, int],
        standings: Mapping[TopicPartition, Standing],
    ) -> GroupFigures:
        upstream = {position.upstream for position in positions}
        since = [self._untranslated.get(_commit(position), now) for position in positions]
        figures: dict[str, float] = {
            "group_reread_records": sum(position.reread for position in positions),
        }
        if not any(tp in standings and standings[tp].state == "catching-up" for tp in upstream):
            figures["group_position_age_seconds"] = max(0.0, now - min(since))
        if upstream <= ends.keys():
            behind = (max(0, ends[p.upstream] - p.reads_from) for p in positions)
            figures["group_lag_records"] = sum(behind)
        own = [standings[tp] for tp in upstream if tp in standings]
        lag = lag_of(own, len(upstream) - len(own))
        figures |= {name: lag[name] for name in names_at("group") if name in lag}
        if "rpo_records" in lag:
            figures["group_unreplicated_records"] = lag["rpo_records"]
        return GroupFigures(group, figures, Counter(map(_answer, positions)))


def _commit(position: GroupPosition) -> _Commit:
    return position.group, position.upstream, position.committed.offset


def _answer(position: GroupPosition) -> Answer:
    if isinstance(position.answer, NoAnswer):
        return "none"
    return "bounded" if isinstance(position.answer, Bounded | Ahead) else "exact"


SHOWN_EVENTS: Final = 20


class FlowObserver:
    """One flow, look by look, one at a time. What it returns does not change.

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
        self.partitions = Partitions(context.config.status.slo_lag_seconds)
        self.topics = TopicLooks()
        self._job = job
        self._groups = GroupLooks()
        self._conditions = Conditions()
        self._produced = Recent()
        self._durations: dict[str, RecentDurations] = defaultdict(RecentDurations)
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
        return self.context.metrics.look().copying

    def look(self, now: float, reported: Reported | None) -> Observation:
        """Returns what is known at the `steady` time *now*.

        Args:
            now: The time.
            reported: What executors have reported; None if they do not.
        """
        metrics, ahead = replace(self.context.metrics.look(), at=now), jumped()
        copying = metrics.copying
        uses = () if reported is None else reported.limits
        awaited = self.context.refused_schemas.waiting  # topics that wait for schemas
        is_waiting = bool(awaited) or any(use.is_waiting for use in uses)
        leaderless = self.context.outages.leaderless
        standings = self.partitions.look(now, metrics, leaderless, ahead, is_waiting=is_waiting)
        topics = self.topics.look(now, metrics, standings, reported)
        by_tp = {one.tp: one for one in standings}
        groups = self._groups.look(now, metrics.round, by_tp)
        bare = sum(topic.reason != "" and not topic.partitions for topic in topics)
        figures = lag_of(standings, bare)
        figures |= self._rates(now, copying, figures) | _of_topics(topics, figures)
        figures |= _of_reports(reported)
        figures |= _of_metrics(now, metrics, ahead) | {"schemas_waiting": float(len(awaited))}
        if (letters := self.context.tables.counts.events(self.config.flow).letters) is not None:
            figures["dead_letters"] = letters
        figures |= of_heartbeats(topics, self.config.policy.heartbeats_topic())
        labelled = self._labelled(metrics, standings, topics, reported)
        durations = self._time(metrics, reported)
        facts = self._facts(metrics, figures, topics, groups, reported)
        throttles = labelled.get("throttle_seconds", {})
        return replace(
            look_at(self.context, self._job),
            as_of=now + ahead,
            measured=now,
            conditions=self._conditions.look(replace(facts, jumped=ahead, throttles=throttles)),
            version=_version(),
            figures=figures,
            histograms={name: one.whole for name, one in durations.items()},
            quantiles={
                name: recent
                for name, one in durations.items()
                if (recent := one.look(now).quantiles())
            },
            labelled=labelled,
            topics=topics,
            groups=groups,
            events=tuple(self._events()),
            clusters=tuple(self._clusters()),
        )

    def _time(self, metrics: Figures, reported: Reported | None) -> Mapping[str, RecentDurations]:
        """Returns how long things take; what executors do not report is not known."""
        found: dict[str, Histogram] = {}
        if reported is not None:
            known = (one.whole for one in self.topics.latencies.values())
            longest = max((one.longest for one in reported.latencies.values()), default=0.0)
            whole = reduce(Histogram.plus, known, Histogram())
            found["latency_seconds"] = replace(whole, longest=longest)
            found["transfer_seconds"] = reported.transfer
        if metrics.round.at is not None:
            found["checkpoint_seconds"] = metrics.round.waited
        for name, whole in found.items():
            self._durations[name].add(metrics.at, whole)
        return {name: self._durations[name] for name in found}

    def _facts(
        self,
        metrics: Figures,
        figures: Mapping[str, float],
        topics: tuple[TopicFigures, ...],
        groups: tuple[GroupFigures, ...],
        reported: Reported | None,
    ) -> FlowFacts:
        now, aliases = metrics.at, (self.config.source.alias, self.config.target.alias)
        self._restarts.extend([now] * (metrics.copying.restarts - self._counted))
        self._counted = metrics.copying.restarts
        while self._restarts and now - self._restarts[0] >= RECENT_SECONDS:
            self._restarts.popleft()
        silences, counts = self.context.outages.silences, self.context.tables.counts
        return FlowFacts(
            self.config.flow,
            now,
            metrics,
            figures,
            topics,
            groups,
            {alias: silence.reason for alias, silence in silences.items() if silence is not None},
            counts.events(self.config.flow),
            counts.writes(),
            self.config.status.slo_lag_seconds,
            is_reported=reported is not None or not metrics.copying.generations,
            restarts=len(self._restarts),
            skews={alias: skew for alias in aliases if (skew := self._skew_of(alias))},
            ahead=_ahead(metrics.copying),
            heartbeat_age=self._late_heartbeats(metrics, figures),
            servers={
                one.alias: one.admin.get("bootstrap.servers", "")
                for one in (self.config.source, self.config.target)
            },
            keeps_less={k: v for k, v in self.context.metrics.losses.items() if k not in self.kept},
        )

    def _late_heartbeats(self, metrics: Figures, figures: Mapping[str, float]) -> float | None:
        if self.config.mode == "drain":  # which has one of each pair
            return None
        topic = self.config.policy.heartbeats_topic()
        newest = figures.get("heartbeat_timestamp_seconds")
        seen = None if newest is None else newest - jumped()
        copying = metrics.copying
        is_copied = topic in copying.topics and topic not in copying.paused_topics
        return self._heartbeats.look(metrics.at, seen, is_copied=is_copied)

    def _rates(self, now: float, copying: Copying, lag: Mapping[str, float]) -> dict[str, float]:
        found, ends = self.topics.rates(now, copying), self.partitions.ends
        if not ends:
            return found
        if len(ends) != self._ends:  # those of other partitions do not tell what was produced
            self._produced = Recent()
            self._ends = len(ends)
        self._produced.add(now, sum(ends.values()))
        produced = self._produced.per_second(RATE_SECONDS)
        behind = None if lag.get("lag_unknown_partitions") else lag.get("lag_records")
        if behind == 0:
            found["catch_up_seconds"] = 0.0
        elif behind and produced is not None and "records_per_second" in found:
            gained = found["records_per_second"] - produced[0]
            if gained > 0:
                found["catch_up_seconds"] = behind / gained
        return found

    def _labelled(
        self,
        metrics: Figures,
        standings: Iterable[Standing],
        topics: Iterable[TopicFigures],
        reported: Reported | None,
    ) -> dict[str, Mapping[str, float]]:
        """Returns the figures with one bounded label; each counter of them from 0 on."""
        counts = self.context.tables.counts
        events, writes = counts.events(self.config.flow), counts.writes()
        known: Mapping[str, Mapping[str, float]] = {
            "restarts_total": {"records": metrics.copying.restarts},
            "events_total": events.kinds,
            "given_up_offsets_total": {str(cause): n for cause, n in events.given_up.items()},
            "given_up_timestamp_seconds": {
                str(cause): at + jumped() for cause, at in events.given_up_at.items()
            },
            "state_writes_total": {table: one.commits for table, one in writes.items()},
            "state_write_failures_total": {table: one.failures for table, one in writes.items()},
            "state_write_seconds_total": {table: one.seconds for table, one in writes.items()},
        }
        states = Counter[TopicState](one.state for one in standings)
        states.update(topic.state for topic in topics if not topic.partitions)  # one each
        found: dict[str, Mapping[str, float]] = {
            name: {value: known[name].get(value, 0) for value in values}
            for name, values in BOUNDED.items()
        }
        found["partitions"] = {state: states[state] for state in get_args(TopicState)}
        parts = [part for part in LEASED.values() if runs(self._job, part)]
        held = {LEASED[name] for name, lease in list(self.context.held.items()) if lease.is_held}
        found["lease_held"] = {part: int(part in held) for part in parts}
        found["source_tasks"] = {str(source): n for source, n in metrics.copying.tasks.items()}
        if reported is not None:
            found |= of_limits(self.context.metrics.told_limits, reported.limits)
            found["executors"] = {"living": reported.executors}
            found["task_slots"] = self._slots(reported)
            found["throttle_seconds"] = _throttles(self.config, reported)
            if reported.use is not None:
                found["jvm_heap_bytes"] = reported.use.heap
        return found

    def _slots(self, reported: Reported) -> dict[str, int]:
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
    flow, waits = config.flow, reported.throttles
    ids = {
        flow.source: named(config.source.consumer, flow)["client.id"],
        flow.target: producer_client_id(config.target.producer, flow),
    }
    return {alias: waits[client] for alias, client in ids.items() if client in waits}


def _of_topics(topics: Iterable[TopicFigures], lag: Mapping[str, float]) -> dict[str, float]:
    known = [topic.figures for topic in topics]
    figures: dict[str, float] = {}
    if headrooms := [one[HEADROOM] for one in known if HEADROOM in one]:
        figures[HEADROOM] = min(headrooms)
    sizes = [one["lag_bytes"] for one in known if "lag_bytes" in one]
    if sizes and (any(sizes) or lag.get("lag_records") == 0):
        figures["lag_bytes"] = sum(sizes)
    return figures


HEADROOM: Final = "retention_headroom_seconds"


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
    newest: dict[str, int] = {}
    for tp, at in copying.source_ms.items():
        newest[tp.topic] = max(at, newest.get(tp.topic, at))
    now = time.time()
    found = {topic: at / 1000 - now for topic, at in newest.items() if topic in copying.topics}
    return {topic: seconds for topic, seconds in found.items() if seconds > MOST_SKEW_SECONDS}


def _of_metrics(now: float, metrics: Figures, jumped: float) -> dict[str, float]:
    copying, round_ = metrics.copying, metrics.round
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
