"""What `serve` has seen of each flow, and what it remembers of the last hours."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from replication.figures.observation import ENDED, Observation
from replication.model import Flow
from replication.serve.charts import Point

KEPT_SECONDS: Final = 2 * 3600.0
"""How long figures stay in memory; the table ``figures`` has older ones."""

REMEMBERED: Final = (
    "lag_seconds",
    "lag_records",
    "records_per_second",
    "bytes_per_second",
    "in_flight_records",
)
LATENCIES: Final = {"latency_p50": 0.5, "latency_p99": 0.99, "latency_max": 1.0}
MOST_TOPICS: Final = 500
"""Topics of a flow whose figures are remembered: those that lag most, then those that move."""

FIGURES: Final = (*REMEMBERED, *LATENCIES)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one flow.

    Args:
        flow: Which.
        observation: The last that was heard of it; None if nothing was.
        is_silent: Whether there should be something newer.
        text: Why nothing is known, or why it is silent; else "".
        told: What the tables say of its state, where nothing was heard; "" if they do not.
    """

    flow: Flow
    observation: Observation | None = None
    is_silent: bool = False
    text: str = ""
    told: str = ""

    @property
    def state(self) -> str:
        """The flow's state, or what stands for it: `silent`, `unknown`."""
        if self.is_silent:
            return "silent"
        return self.observation.state if self.observation else self.told or "unknown"

    @property
    def is_stale(self) -> bool:
        """Whether the figures are not those of now. Those of a flow that has ended never change."""
        if self.observation is None:
            return True
        return self.is_silent and self.observation.state not in ENDED


Look = Callable[[Flow], Seen]
"""Tells what was heard of a flow; does not wait."""


class Sight:
    """All flows of a configuration, as they were seen last, with their figures of two hours.

    Args:
        flows: The flows.
        look: Tells what was heard of one of them.
    """

    def __init__(self, flows: Iterable[Flow], look: Look) -> None:
        self.flows = tuple(flows)
        self._look = look
        self._memories: Mapping[Flow, Memory] = {flow: Memory() for flow in self.flows}

    def see(self, flow: Flow) -> Seen:
        """Returns what is known of *flow* now."""
        seen = self._look(flow)
        if seen.observation is not None:
            self._memories[flow].add(seen.observation)
        return seen

    def refresh(self) -> None:
        """Looks at all flows, so that their figures are remembered even if nobody asks."""
        for flow in self.flows:
            self.see(flow)

    def points(self, flow: Flow, figure: str, topic: str | None, since: float) -> list[Point]:
        """Returns the remembered values of *figure* since a time, the oldest first."""
        return self._memories[flow].points(figure, topic, since)


@dataclass(slots=True)
class Memory:
    """The figures of one flow for some hours: of the flow, and of topics that move or lag."""

    _rows: deque[tuple[float, Mapping[str | None, Mapping[str, float]]]] = field(
        default_factory=deque
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, observed: Observation) -> None:
        """Remembers what was observed, unless it was before."""
        with self._lock:
            if self._rows and self._rows[-1][0] >= observed.as_of:
                return
            self._rows.append((observed.as_of, figures_of(observed)))
            while self._rows and self._rows[0][0] < time.time() - KEPT_SECONDS:
                self._rows.popleft()

    def points(self, figure: str, topic: str | None, since: float) -> list[Point]:
        """Returns the values of *figure* since a time; None where it was unknown."""
        with self._lock:
            rows = [row for row in self._rows if row[0] >= since]
        return [(at, found.get(topic, {}).get(figure)) for at, found in rows]


def figures_of(observed: Observation) -> dict[str | None, dict[str, float]]:
    """Returns what is remembered of an observation, by topic; None is the flow."""
    own = {name: observed.figures[name] for name in REMEMBERED if name in observed.figures}
    latency = observed.histograms.get("latency_seconds")
    if latency is not None:
        known = {name: latency.quantile(share) for name, share in LATENCIES.items()}
        own |= {name: value for name, value in known.items() if value is not None}
    moving = sorted(
        (topic for topic in observed.topics if any(topic.figures.get(n) for n in REMEMBERED)),
        key=lambda topic: (
            -topic.figures.get("lag_seconds", 0),
            -topic.figures.get("records_per_second", 0),
            topic.topic,
        ),
    )
    topics: dict[str | None, dict[str, float]] = {
        topic.topic: {n: topic.figures[n] for n in REMEMBERED if n in topic.figures}
        for topic in moving[:MOST_TOPICS]
    }
    return {None: own, **topics}
