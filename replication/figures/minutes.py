"""The figures of a flow by the minute, for the table ``figures``. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from replication.figures.histogram import Histogram
from replication.figures.observation import Observation, TopicFigures
from replication.model import Flow

SECONDS: Final = 60.0
MOST_TOPICS: Final = 500
OTHERS: Final = "(others)"
"""Stands for the topics beyond `MOST_TOPICS`, by their sums and worst values."""


@dataclass(frozen=True, slots=True)
class Minute:
    """A row of the table: a flow, or one of its topics, in one minute.

    Args:
        flow: The flow.
        at: When the minute began, in epoch seconds.
        seconds: How long it was observed.
        topic: The upstream topic; None for the flow.
        values: Column -> value; None is unknown.
        state: The last state of the flow or topic.
    """

    flow: Flow
    at: float
    seconds: float
    topic: str | None
    values: Mapping[str, float | None]
    state: str


@dataclass(frozen=True, slots=True)
class CountedMinutes:
    """How many minutes of a flow the table has, and how these were.

    Args:
        known: All of them.
        late: Those in which something lagged that nobody had paused.
        paused: Those in which an operator had paused something.
    """

    known: int
    late: int
    paused: int


@dataclass(slots=True)
class Minutes:
    """Collects the observations of one flow, and gives the rows of each minute that is over."""

    _seen: list[Observation] = field(default_factory=list)
    _before: Observation | None = None

    def add(self, observed: Observation) -> list[Minute]:
        """Takes an observation; returns the rows of the minute that it ends, mostly none."""
        rows: list[Minute] = []
        if self._seen and _minute(observed.as_of) != _minute(self._seen[-1].as_of):
            rows = self._rows()
            self._before = self._seen[-1]
            self._seen = []
        self._seen.append(observed)
        return rows

    def end(self) -> list[Minute]:
        """Returns the rows of the minute that has begun, if it was observed for half of its time.

        A drain of seconds leaves none: the table ``executions`` has its sums.
        """
        if not self._seen or self._seen[-1].clock - self._start() <= SECONDS / 2:
            return []
        return self._rows()

    def _start(self) -> float:
        return (self._before or self._seen[0]).clock

    def _rows(self) -> list[Minute]:
        last, before = self._seen[-1], self._before or self._seen[0]
        at, seconds = _minute(last.as_of) * SECONDS, last.clock - self._start()
        looks = [one.figures for one in self._seen]
        own = {
            **_sums(last.figures, before.figures),
            **_worst(looks),
            "paused": max(
                one.labelled.get("partitions", {}).get("paused", 0) for one in self._seen
            ),
            "in_flight": _most(looks, "in_flight_records"),
            **_durations(self._seen, before),
            "restarts": _grown(last, before, "restarts_total"),
            "given_up": _grown(last, before, "given_up_offsets_total"),
        }
        rows = [Minute(last.flow, at, seconds, None, own, last.state)]
        found = self._topics(last, before)
        shown, others = found[:MOST_TOPICS], found[MOST_TOPICS:]
        rows += [
            Minute(last.flow, at, seconds, topic, values, state) for topic, values, state in shown
        ]
        if others:
            rows.append(Minute(last.flow, at, seconds, OTHERS, _joined(others), "copying"))
        return rows

    def _topics(
        self, last: Observation, before: Observation
    ) -> list[tuple[str, dict[str, float | None], str]]:
        earlier = {topic.topic: topic for topic in before.topics}
        looks: dict[str, list[TopicFigures]] = {}
        for one in self._seen:
            for topic in one.topics:
                looks.setdefault(topic.topic, []).append(topic)
        found = []
        for topic in last.topics:
            then, seen = earlier.get(topic.topic, topic), looks[topic.topic]
            values = {
                **_sums(topic.figures, then.figures),
                **_worst([look.figures for look in seen]),
                "paused": max(
                    sum(part.state == "paused" for part in look.partitions) for look in seen
                ),
            }
            moves = topic.state != "copying" or values["records"] or values["lag_records"]
            if moves:
                found.append((topic.topic, values, topic.state))
        return sorted(found, key=lambda row: (-(row[1]["lag_seconds"] or 0), row[0]))


def _minute(at: float) -> int:
    return int(at // SECONDS)


def _sums(last: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float | None]:
    return {
        name: last[f"{name}_total"] - before.get(f"{name}_total", 0)
        if f"{name}_total" in last
        else None
        for name in ("records", "bytes")
    }


def _worst(looks: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    names = ("lag_records", "lag_seconds", "unpaused_lag_seconds")
    return {name: _most(looks, name) for name in names}


def _most(looks: Sequence[Mapping[str, float]], name: str) -> float | None:
    return max((look[name] for look in looks if name in look), default=None)


def _durations(looks: Sequence[Observation], before: Observation) -> dict[str, float | None]:
    def within(name: str) -> Histogram | None:
        now = looks[-1].histograms.get(name)
        longest = (one.quantiles.get(name, {}).get("max") for one in looks)
        return now and replace(
            now.since(before.histograms.get(name, Histogram())),
            longest=max((one for one in longest if one is not None), default=inf),
        )

    latency, transfer = within("latency_seconds"), within("transfer_seconds")
    shares = {"latency_p50": 0.5, "latency_p99": 0.99, "latency_max": 1.0}
    found = {name: latency.quantile(share) if latency else None for name, share in shares.items()}
    return {**found, "transfer_p99": transfer.quantile(0.99) if transfer else None}


def _grown(last: Observation, before: Observation, name: str) -> float | None:
    if name not in last.labelled:
        return None
    return sum(last.labelled[name].values()) - sum(before.labelled.get(name, {}).values())


def _joined(rows: Sequence[tuple[str, dict[str, float | None], str]]) -> dict[str, float | None]:
    def known(name: str) -> list[float]:
        return [value for _, values, _ in rows if (value := values[name]) is not None]

    sums: dict[str, Any] = {
        name: sum(found) if (found := known(name)) else None
        for name in ("records", "bytes", "lag_records", "paused")
    }
    worst = {
        name: max(known(name), default=None) for name in ("lag_seconds", "unpaused_lag_seconds")
    }
    return {**sums, **worst}
