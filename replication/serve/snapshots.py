"""What `serve` has seen of each flow, and what it remembers of the last hours."""

import math
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from replication.config.tree import MirrorConfig
from replication.control.flow_answers import (
    FlowAnswer,
    FlowAnswers,
    Health,
    health_of_flow,
    is_of_before,
)
from replication.errors import ReplicationError
from replication.figures.observation import Observation, TopicFigures
from replication.log import Log
from replication.model import Flow
from replication.serve.charts import Point

log = Log(__name__)

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
class FlowSnapshot:
    """What is known of one flow.

    Args:
        flow: Which.
        observation: The last that was heard of it; None if nothing was.
        is_silent: Whether there should be something newer.
        text: Why nothing is known, or why it is silent; else "".
        by_tables: What the tables say of its state, where nothing was heard; "" if they do not.
        standbys: How many processes of other machines wait to take it over; None if none is known.
        is_whole: Whether its parts that run as jobs of their own are well.
        has_troubles: Whether the tables tell of something that is not replicated.
        unanswered: Why its target does not answer this process; "" if it does.
    """

    flow: Flow
    observation: Observation | None = None
    is_silent: bool = False
    text: str = ""
    by_tables: str = ""
    standbys: int | None = None
    is_whole: bool = True
    has_troubles: bool = False
    unanswered: str = ""

    @property
    def state(self) -> str:
        """The flow's state, or what stands for it: `silent`, `unknown`."""
        if self.is_silent:
            return "silent"
        return self.observation.state if self.observation else self.by_tables or "unknown"

    @property
    def health(self) -> Health:
        """How healthy the flow is now."""
        return health_of_flow(
            self.state, self.observation, is_whole=self.is_whole, has_troubles=self.has_troubles
        )

    @property
    def is_stale(self) -> bool:
        """Whether the figures are not those of now."""
        return self.observation is None or is_of_before(self.state)


Look = Callable[[Flow], FlowSnapshot]
"""Tells what was heard of a flow; does not wait."""


class FlowSnapshots:
    """All flows of a configuration, as they were seen last, with their figures of two hours."""

    def __init__(self, flows: Iterable[Flow], look: Look) -> None:
        self.flows = tuple(flows)
        self._look = look
        self._memories: Mapping[Flow, Memory] = {flow: Memory() for flow in self.flows}

    def see(self, flow: Flow) -> FlowSnapshot:
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


@dataclass(frozen=True, slots=True)
class _Look:
    """One look in a few bytes: the values of `REMEMBERED` of one topic after the other.

    *places* has the place of each topic among *values*, and looks at the same topics share it; NaN
    is unknown.
    """

    at: float
    flow: Mapping[str, float]
    places: Mapping[str, int]
    values: "array[float]"

    def value(self, figure: str, topic: str | None) -> float | None:
        """Returns a figure of the flow, or of a topic; None if it was unknown."""
        if topic is None:
            return self.flow.get(figure)
        place = self.places.get(topic)
        if place is None or figure not in REMEMBERED:
            return None
        found = self.values[place * len(REMEMBERED) + REMEMBERED.index(figure)]
        return None if math.isnan(found) else found


@dataclass(slots=True)
class Memory:
    """The figures of one flow for some hours: of the flow, and of topics that move or lag."""

    _looks: deque[_Look] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, observed: Observation) -> None:
        """Remembers what was observed, unless it was before."""
        with self._lock:
            if self._looks and self._looks[-1].at == observed.as_of:
                return
            while self._looks and self._looks[-1].at > observed.as_of:
                self._looks.pop()  # the owner's clock was set back, or another owner has it
            before = self._looks[-1] if self._looks else None
            topics = {topic.topic: topic.figures for topic in moving_topics(observed)}
            names = sorted(topics)
            if before and list(before.places) == names:
                places = before.places
            else:
                places = {sys.intern(name): place for place, name in enumerate(names)}
            values = (topics[name].get(figure, math.nan) for name in names for figure in REMEMBERED)
            look = _Look(observed.as_of, flow_figures(observed), places, array("d", values))
            self._looks.append(look)
            while self._looks and self._looks[0].at < time.time() - KEPT_SECONDS:
                self._looks.popleft()

    def points(self, figure: str, topic: str | None, since: float) -> list[Point]:
        """Returns the values of *figure* since a time; None where it was unknown."""
        with self._lock:
            looks = [look for look in self._looks if look.at >= since]
        return [(look.at, look.value(figure, topic)) for look in looks]


def flow_figures(observed: Observation) -> dict[str, float]:
    """Returns what is remembered of the flow itself."""
    own = {name: observed.figures[name] for name in REMEMBERED if name in observed.figures}
    latency = observed.histograms.get("latency_seconds")
    if latency is None:
        return own
    known = {name: latency.quantile(share) for name, share in LATENCIES.items()}
    return own | {name: value for name, value in known.items() if value is not None}


def moving_topics(observed: Observation) -> list[TopicFigures]:
    """Returns the topics that are remembered: those that lag most, then those that move."""
    moving = (topic for topic in observed.topics if any(topic.figures.get(n) for n in REMEMBERED))
    in_order = sorted(
        moving,
        key=lambda topic: (
            -topic.figures.get("lag_seconds", 0),
            -topic.figures.get("records_per_second", 0),
            topic.topic,
        ),
    )
    return in_order[:MOST_TOPICS]


Stored = Callable[[Flow, str | None, float], list[tuple[float, dict[str, float | None]]]]
"""The rows of the table for a flow and topic since a time: when, and the figures by name."""


@dataclass(frozen=True, slots=True)
class History:
    """Figures over time: of memory, and as the table has *stored* them where it is in reach."""

    snapshots: FlowSnapshots
    stored: Stored | None = None

    def points(self, flow: Flow, figure: str, topic: str | None, since: float) -> list[Point]:
        """Returns the values of *figure* since a time, the oldest first; None where unknown."""
        recent = self.snapshots.points(flow, figure, topic, since)
        begins = recent[0][0] if recent else float("inf")
        if self.stored is None or begins <= since:
            return recent
        rows = self.stored(flow, topic, since)
        return [(at, row.get(figure)) for at, row in rows if at < begins] + recent


# Listens to what the owners of flows say, in a thread of its own.

LISTEN_SECONDS: Final = 1.0
"""How long each turn takes in what is said, before the groups of the leases are asked again."""

_END_SECONDS: Final = 10.0


class Listening(AbstractContextManager["Listening"]):
    """What was heard of all flows, renewed every few seconds, for the block."""

    def __init__(self, config: MirrorConfig) -> None:
        waiting = "what the flows publish is still being read"
        self._config = config
        self._seen = {flow.flow: FlowSnapshot(flow.flow, text=waiting) for flow in config.flows}
        self._is_complete = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)

    def __enter__(self) -> "Listening":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread, which may be waiting for a cluster."""
        self._over.set()
        self._thread.join(_END_SECONDS)

    def look(self, flow: Flow) -> FlowSnapshot:
        """Returns what was heard of *flow*; does not wait."""
        return self._seen[flow]

    def is_complete(self) -> bool:
        """Returns whether everything was read once that is there."""
        return self._is_complete.is_set()

    def _run(self) -> None:
        with FlowAnswers(self._config, self._config.flows) as answers:
            while not self._over.is_set():
                self._ask(answers)

    def _ask(self, answers: FlowAnswers) -> None:
        try:
            found = answers.ask(LISTEN_SECONDS, are_tables_wanted=False)
            self._seen = {answer.flow: seen_of(answer) for answer in found}
        except ReplicationError as error:  # no job ever began here
            self._seen = {flow: FlowSnapshot(flow, text=str(error)) for flow in self._seen}
            self._over.wait(LISTEN_SECONDS)
        except Exception:  # the thread's edge: the next turn may do better
            log.exception("serve_failed", text="please report this")
            self._over.wait(LISTEN_SECONDS)
        self._is_complete.set()


def seen_of(answer: FlowAnswer) -> FlowSnapshot:
    """Returns what an answer says of a flow."""
    entry = answer.last.entry
    reasons = dict.fromkeys((answer.why, "" if entry else answer.last.why_not))
    return FlowSnapshot(
        answer.flow,
        answer.heard,
        answer.state == "silent",
        "; ".join(filter(None, reasons)),
        str(answer.state),
        answer.standbys,
        answer.is_whole,
        answer.has_troubles,
        "" if answer.group.denied else answer.group.reason,
    )
