"""Which topics, partitions and groups have series of their own. Pure.

A Prometheus pays for each series, and a new topic must not be what fills it. Whoever has no series
of its own is part of ``(others)``, so that sums stay right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from replication.config.metrics_settings import PartitionSeries
from replication.figures.observation import (
    Answer,
    Figures,
    GroupFigures,
    Observation,
    PartitionFigures,
    TopicFigures,
)

OTHERS: Final = "(others)"
"""The topic or group that stands for all without series of their own. Kafka allows no such name."""

LAGGING_PARTITIONS: Final = 100
MOST_PARTITIONS: Final = 10_000
MOST_WITH_LATENCY: Final = 100
MOST_SET_ASIDE: Final = 100

URGENT_SECONDS: Final = 10.0
"""From this lag on, a topic is preferred for its lag. A lag of a second comes and goes, and with it
would series, which cost a Prometheus more than those that stay."""

_Item = TypeVar("_Item")
_SUMS: Final = frozenset(
    {
        "records_total",
        "bytes_total",
        "lag_records",
        "lag_bytes",
        "group_lag_records",
        "group_reread_records",
        "group_unreplicated_records",
    }
)
"""Figures whose sum ``(others)`` has."""
_LEAST: Final = frozenset({"copied_until_timestamp_seconds", "retention_headroom_seconds"})
"""Figures whose least value it has; of the rest it has the greatest."""
_GROWING: Final = ("records_total", "bytes_total")


@dataclass(frozen=True, slots=True)
class Limits:
    """How many series a flow may have.

    Args:
        topics: At most this many topics.
        groups: At most this many groups.
        partitions: Which partitions.
    """

    topics: int = 1000
    groups: int = 500
    partitions: PartitionSeries = "lagging"


@dataclass(frozen=True, slots=True)
class Cut:
    """What of an observation has series.

    Args:
        observed: The whole observation.
        topics: Those with series of their own, and ``(others)`` if there are more.
        groups: The same.
        partitions: Topic and partition.
        busiest: The topics with the most records, whose latency is shown.
        aside: The topics that are set aside.
        limited: What has more than it may have series: 1, else 0.
    """

    observed: Observation
    topics: Sequence[TopicFigures]
    groups: Sequence[GroupFigures]
    partitions: Sequence[tuple[TopicFigures, PartitionFigures]]
    busiest: Sequence[TopicFigures]
    aside: Sequence[TopicFigures]
    limited: Mapping[str, int]


@dataclass(slots=True)
class Cutter:
    """Cuts the observations of one flow, one after the other.

    A topic that has no series of its own any more must not let the sum of the others fall: for
    Prometheus a counter that falls has begun again at 0. So the others count what is new.
    """

    limits: Limits
    _counted: dict[str, dict[str, float]] = field(default_factory=dict)
    _others: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_GROWING, 0.0))

    def cut(self, observed: Observation) -> Cut:
        """Returns what of *observed* has series."""
        topics, other_topics = _split(observed.topics, self.limits.topics, _urgency)
        groups, other_groups = _split(observed.groups, self.limits.groups, _urgency_of_group)
        partitions, has_more = self._partitions(observed)
        aside = [topic for topic in observed.topics if topic.state == "set-aside"]
        busiest = sorted(topics, key=_records, reverse=True)[:MOST_WITH_LATENCY]
        limited = {
            "topics": bool(other_topics) or len(aside) > MOST_SET_ASIDE,
            "groups": bool(other_groups),
            "partitions": has_more,
        }
        self._count(observed.topics, {topic.topic for topic in other_topics})
        if other_topics:
            topics = [*topics, self._others_of(other_topics)]
        if other_groups:
            groups = [*groups, _others_of_groups(other_groups)]
        return Cut(
            observed,
            topics,
            groups,
            partitions,
            busiest,
            aside[:MOST_SET_ASIDE],
            {what: int(is_cut) for what, is_cut in limited.items()},
        )

    def _partitions(
        self, observed: Observation
    ) -> tuple[list[tuple[TopicFigures, PartitionFigures]], bool]:
        """Returns the partitions that have series, and whether there are more that should."""
        kind = self.limits.partitions
        if kind == "off":
            return [], False
        found = [
            (topic, part)
            for topic in observed.topics
            for part in topic.partitions
            if kind == "all" or part.state != "copying"
        ]
        most = MOST_PARTITIONS if kind == "all" else LAGGING_PARTITIONS
        if len(found) > most:
            found.sort(key=lambda pair: _lag(pair[1].figures), reverse=True)
        return found[:most], len(found) > most

    def _count(self, topics: Sequence[TopicFigures], others: set[str]) -> None:
        for topic in topics:
            before = self._counted.get(topic.topic, {})
            now = {name: topic.figures[name] for name in _GROWING if name in topic.figures}
            if topic.topic in others:
                for name, value in now.items():
                    self._others[name] += max(0.0, value - before.get(name, 0.0))
            self._counted[topic.topic] = now
        if len(self._counted) > len(topics):
            known = {topic.topic for topic in topics}
            self._counted = {name: now for name, now in self._counted.items() if name in known}

    def _others_of(self, topics: Sequence[TopicFigures]) -> TopicFigures:
        figures = _joined(topic.figures for topic in topics)
        counted = {name: self._others[name] for name in _GROWING if name in figures}
        return TopicFigures(OTHERS, None, "copying", "", {**figures, **counted})


def _others_of_groups(groups: Sequence[GroupFigures]) -> GroupFigures:
    answers = Counter[Answer]()
    for group in groups:
        answers.update(group.answers)
    return GroupFigures(OTHERS, _joined(group.figures for group in groups), answers)


def _joined(found: Iterable[Figures]) -> Figures:
    """Returns one value of each figure for all; what is unknown of one is left out."""
    joined: dict[str, float] = {}
    for figures in found:
        for name, value in figures.items():
            if name not in joined:
                joined[name] = value
            elif name in _SUMS:
                joined[name] += value
            else:
                joined[name] = (min if name in _LEAST else max)(joined[name], value)
    return joined


def _lag(figures: Figures) -> tuple[float, float]:
    return figures.get("lag_seconds", 0.0), figures.get("lag_records", 0.0)


def _records(topic: TopicFigures) -> float:
    return topic.figures.get("records_total", 0.0)


def _urgency(topic: TopicFigures) -> tuple[bool, float, float]:
    lag = topic.figures.get("lag_seconds", 0.0)
    urgent = lag >= URGENT_SECONDS or topic.state == "set-aside"
    return urgent, lag if urgent else 0.0, _records(topic)


def _urgency_of_group(group: GroupFigures) -> tuple[float, float, float]:
    get = group.figures.get
    age = get("group_position_age_seconds", 0.0)
    return get("group_blocked", 0.0), age if age >= URGENT_SECONDS else 0.0, 0.0


def _split(
    items: Sequence[_Item], most: int, urgency: Callable[[_Item], Any]
) -> tuple[Sequence[_Item], Sequence[_Item]]:
    if len(items) <= most:
        return items, ()
    ranked = sorted(range(len(items)), key=lambda n: urgency(items[n]), reverse=True)
    chosen = set(ranked[:most])
    return (
        [item for n, item in enumerate(items) if n in chosen],
        [item for n, item in enumerate(items) if n not in chosen],
    )
