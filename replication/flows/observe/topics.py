"""The figures of the topics of one flow, and their sums and rates. Pure."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Final

from replication.figures.histogram import Histogram
from replication.figures.observation import TopicFigures, TopicState
from replication.figures.recent import Recent
from replication.flows.board import Copying, Figures
from replication.flows.observe.partitions import Standing
from replication.spark.reported_figures import Reported

RATE_SECONDS: Final = 60.0
BEHIND_SECONDS: Final = 60.0
QUANTILES: Final = {"0.5": 0.5, "0.99": 0.99, "1": 1.0}
WORST: Final[tuple[TopicState, ...]] = (
    "set-aside",
    "leaderless",
    "stalled",
    "lagging",
    "paused",
    "copying",
)


class TopicLooks:
    """The topics of one flow, look by look.

    Attributes:
        headroom: Until the source deletes what is not copied, of some topics that lag, in seconds.
        behind: The topics that lag by more than a minute, and by how much.
    """

    def __init__(self) -> None:
        self.headroom: Mapping[str, float] = {}
        self.behind: dict[str, float] = {}
        self._last: dict[str, tuple[object, TopicFigures]] = {}  # what it is made of
        self._grown: dict[str, Recent] = defaultdict(Recent)
        self._flow = Recent()
        self._latencies: dict[str, Histogram] = {}  # by remote topic, since the process began
        self._seen: dict[str, deque[tuple[float, Histogram]]] = defaultdict(deque)

    def look(
        self, now: float, board: Figures, standings: Iterable[Standing], reported: Reported | None
    ) -> tuple[TopicFigures, ...]:
        """Returns the figures of each topic, in the order of their names."""
        if reported is not None:
            self._time(now, reported.latencies)
        by_topic: dict[str, list[Standing]] = defaultdict(list)
        for one in standings:
            by_topic[one.tp.topic].append(one)
        reasons: dict[str, str] = {}
        for part, error in board.aside.items():
            reasons.setdefault(part if isinstance(part, str) else part.topic, str(error))
        names = sorted(by_topic.keys() | reasons.keys() | board.copying.records.keys())
        found = tuple(
            self._topic(name, now, board.copying, by_topic[name], reasons.get(name))
            for name in names
        )
        self._last = {name: self._last[name] for name in names}
        lags = {topic.topic: topic.figures.get("lag_seconds", 0.0) for topic in found}
        self.behind = {name: lag for name, lag in lags.items() if lag > BEHIND_SECONDS}
        return found

    def histograms(self, reported: Reported | None) -> dict[str, Histogram]:
        """Returns the histograms of the records; none where executors do not report."""
        if reported is None:
            return {}
        latency = Histogram()
        for one in self._latencies.values():
            latency = latency.plus(one)
        return {"latency_seconds": latency, "transfer_seconds": reported.transfer}

    def rates(self, now: float, copying: Copying) -> dict[str, float]:
        """Returns the sums of the flow since the process began, and how fast they grow."""
        records, size = sum(copying.records.values()), sum(copying.bytes.values())
        self._flow.add(now, records, size)
        is_counted = copying.bytes.keys() >= {t for t, n in copying.records.items() if n}
        return _sums(self._flow, records, size if is_counted else None)

    def _topic(
        self, name: str, now: float, copying: Copying, standings: list[Standing], reason: str | None
    ) -> TopicFigures:
        remote = copying.topics.get(name) or copying.paused_topics.get(name)
        records, size = copying.records.get(name, 0), copying.bytes.get(name)
        grown = self._grown[name]
        grown.add(now, records, size or 0)
        made_of, last = (remote, records, size, reason, standings), self._last.get(name)
        if last is not None and last[0] == made_of and _is_at_rest(last[1]):
            return last[1]
        figures = _sums(grown, records, size if records else 0) | _lag(standings)
        mean = grown.ratio()
        if size and mean is not None and "lag_records" in figures:
            figures["lag_bytes"] = figures["lag_records"] * mean
        elif figures.get("lag_records") == 0:
            figures["lag_bytes"] = 0
        if name in self.headroom and name in self.behind:
            figures["retention_headroom_seconds"] = self.headroom[name]
        states: set[TopicState] = {one.state for one in standings}
        if reason is not None:
            states.add("set-aside")
        state: TopicState = next((one for one in WORST if one in states), "copying")
        partitions = tuple(one.figures() for one in standings)
        latency = self._latency(remote, now)
        found = TopicFigures(name, remote, state, reason or "", figures, latency, partitions)
        self._last[name] = made_of, found
        return found

    def _time(self, now: float, latencies: Mapping[str, Histogram]) -> None:
        for topic, histogram in latencies.items():
            seen = self._seen[topic]
            seen.append((now, self._latencies.get(topic, Histogram())))
            while len(seen) > 1 and now - seen[1][0] >= RATE_SECONDS:
                seen.popleft()
            self._latencies[topic] = histogram

    def _latency(self, remote: str | None, now: float) -> dict[str, float]:
        """Returns the quantiles of the last minute; nothing of a topic without live records."""
        if remote is None or remote not in self._latencies:
            return {}
        seen = self._seen[remote]
        while seen and now - seen[0][0] >= RATE_SECONDS:
            seen.popleft()
        if not seen:
            return {}
        recent = self._latencies[remote].since(seen[0][1])
        found = {name: recent.quantile(share) for name, share in QUANTILES.items()}
        return {name: value for name, value in found.items() if value is not None}


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


def _lag(standings: list[Standing]) -> dict[str, float]:
    """Returns the lag of a topic; what of one partition is unknown is so of the topic."""
    figures: dict[str, float] = {}
    lags = [one.lag for one in standings if one.lag is not None]
    if standings and len(lags) == len(standings):
        figures["lag_records"] = figures["rpo_records"] = sum(lag.records for lag in lags)
        ages = [lag.seconds for lag in lags if lag.seconds is not None]
        if len(ages) == len(lags):
            figures["lag_seconds"] = figures["rpo_seconds"] = max(ages)
    moving = [one.lag for one in standings if one.state != "paused"]
    waits = [lag.seconds for lag in moving if lag is not None and lag.seconds is not None]
    if moving and len(waits) == len(moving):
        figures["unpaused_lag_seconds"] = max(waits)
    newest = [one.copied_until for one in standings if one.copied_until is not None]
    if newest:
        figures["copied_until_timestamp_seconds"] = max(newest)
    return figures
