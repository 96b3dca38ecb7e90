"""What must not grow with the faults of a soak: series, memory, and the gaps of history. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SERIES = re.compile(r"^([a-z_]+?)(?:\{(.*)\})? \S+$", re.MULTILINE)
RECORDS = "kafka_replication_records_total"
FEW = 2
"""Series of a metric that was not there at first: one for each cluster."""

SPARE = 1.1
SPARE_BYTES = 8 << 20
FEWEST_WEIGHED = 6
MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the flow.

    Args:
        as_of: When its owner measured it, in epoch seconds.
        state: Of the flow; `silent` and `unknown` are those of whoever tells it.
        owner: The process that owns the flow, and since when; None for none.
        flow_series: How many series each metric without a topic has.
        topic_series: How many each metric by topic has.
    """

    as_of: float
    state: str
    owner: tuple[int, str] | None
    flow_series: Mapping[str, int] = field(default_factory=dict)
    topic_series: Mapping[str, int] = field(default_factory=dict)

    @property
    def series(self) -> int:
        """All of them."""
        return sum(self.flow_series.values()) + sum(self.topic_series.values())

    @property
    def topics(self) -> int:
        """The topics that are copied."""
        return self.topic_series.get(RECORDS, 0)


def series_of(page: str) -> tuple[Counter[str], Counter[str]]:
    """The series of a page of metrics by metric: those of a flow, then those of topics.

    Partitions have series only while they lag, so these are left out.
    """
    flow, topics = Counter[str](), Counter[str]()
    for name, labels in SERIES.findall(page):
        if 'partition="' not in labels:
            (topics if 'topic="' in labels else flow)[name] += 1
    return flow, topics


def whole(looks: Iterable[Look]) -> list[Look]:
    """The looks at an owner that has begun to copy and lives: of others little is told."""
    return [look for look in looks if look.topics and look.state == "running"]


def leaks(looks: Sequence[Look]) -> list[str]:
    """The metrics that had more series at the end than the topics explain, a line each."""
    seen = whole(looks)
    first, last = seen[: max(1, len(seen) // 3)], seen[-10:]
    found = []
    for name in sorted({name for look in last for name in look.flow_series}):
        before = max(look.flow_series.get(name, 0) for look in first)
        after = max(look.flow_series.get(name, 0) for look in last)
        if after > max(before, FEW):
            found.append(f"{name}: {after} series, and {before} at first")
    for name in sorted({name for look in last for name in look.topic_series}):
        before_each = max(look.topic_series.get(name, 0) / look.topics for look in first)
        after_each = max(look.topic_series.get(name, 0) / look.topics for look in last)
        if after_each > max(before_each, 1):
            found.append(f"{name}: {after_each:.2f} series a topic, {before_each:.2f} at first")
    return found


def has_grown(sizes: Sequence[int]) -> bool:
    """Whether memory of these *sizes*, one after the other, has grown; few do not tell."""
    third = len(sizes) // 3
    if len(sizes) < FEWEST_WEIGHED:
        return False
    return min(sizes[-third:]) > max(sizes[:third]) * SPARE + SPARE_BYTES


def lived(looks: Iterable[Look]) -> dict[tuple[int, str], list[int]]:
    """The minutes that each owner has seen whole: all between its first and its last look."""
    ends: dict[tuple[int, str], list[float]] = {}
    for look in looks:
        if look.owner is not None:
            ends.setdefault(look.owner, []).append(look.as_of)
    return {
        owner: list(range(int(min(times) // MINUTE) + 1, int(max(times) // MINUTE)))
        for owner, times in ends.items()
    }


def lost_minutes(looks: Iterable[Look], rows: Iterable[float]) -> tuple[int, list[int]]:
    """How many minutes owners have seen whole, and those of them that have no row of history."""
    due = {minute for minutes in lived(looks).values() for minute in minutes}
    return len(due), sorted(due - {int(at // MINUTE) for at in rows})


def repeated_minutes(looks: Iterable[Look], rows: Iterable[float]) -> list[int]:
    """The minutes with more rows than owners, by the times of the rows."""
    owners: dict[int, set[tuple[int, str]]] = {}
    for look in looks:
        if look.owner is not None:
            owners.setdefault(int(look.as_of // MINUTE), set()).add(look.owner)
    counted = Counter(int(at // MINUTE) for at in rows)
    return sorted(m for m, n in counted.items() if n > max(1, len(owners.get(m, ()))))
