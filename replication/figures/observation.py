"""One look at a flow, with all figures that may be shown of it. Pure.

What is unknown is absent: never 0, never NaN. All times are epoch seconds with milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from replication.figures.health import Condition, Health, health_of
from replication.figures.histogram import Histogram
from replication.model import EventKind, Flow, Job, Mode, Part, Reaction

FlowState = Literal[
    "starting",
    "running",
    "draining",
    "drained",
    "waiting",
    "standby",
    "paused",
    "stopping",
    "stopped",
    "failed",
]
"""What a flow does. `standby` is only in the standby's own answers; `paused` is a flow of which an
operator has paused all that it copies. The last word of a flow is `drained`, `stopped` or
`failed`."""

ENDED: Final = frozenset[FlowState]({"drained", "stopped", "failed"})

TopicState = Literal["copying", "paused", "lagging", "stalled", "set-aside", "leaderless"]
"""What a topic or partition does: the worst of its partitions counts for a topic. What an operator
has paused is so whatever else it would be, and worse than what is copied without a lag."""

Answer = Literal["exact", "bounded", "none", "waiting"]
"""How a group's commit in a partition is translated."""

Figures = Mapping[str, float]
"""By names of the registry; what is unknown is absent."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a *part* of a flow since a time."""

    host: str
    pid: int
    since: float
    part: Part = "records"


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One partition of an upstream topic."""

    partition: int
    state: TopicState
    figures: Figures


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One upstream topic.

    Args:
        topic: Its name.
        remote: The name of its copy; None if it has none yet.
        state: The worst of its partitions'.
        reason: Why it is set aside; else "".
        figures: Sums and worst values of its partitions.
        latency: By quantile, of the last 60 s: "0.5", "0.99", "1"; empty where none is known.
        partitions: In their order.
    """

    topic: str
    remote: str | None
    state: TopicState
    reason: str
    figures: Figures
    latency: Figures = field(default_factory=dict)
    partitions: tuple[PartitionFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One consumer group of the source, as of the last round of checkpoints.

    Args:
        group: Its name.
        figures: Of all its partitions.
        answers: How many of them have which answer; others are absent.
    """

    group: str
    figures: Figures
    answers: Mapping[Answer, int]


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One cluster of the flow: whether it answers, since when, and how far its clock is ahead."""

    name: str
    is_reachable: bool
    since: float | None = None
    skew: float | None = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of the table ``events``; *details* are its further columns."""

    at: float
    kind: EventKind
    text: str
    reaction: Reaction
    details: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a flow. Nothing of it changes afterwards, so any thread may read it.

    Args:
        flow: Which.
        as_of: When it was measured.
        state: What the flow does.
        since: Since when.
        reason: What it waits for; "" if it does not wait.
        conditions: What an operator should know, the worst first.
        owner: The process that owns the records; None if none does.
        epoch: Of its lease.
        mode: How its queries run; None before the first.
        runs: The job that runs the flow.
        generation: The number of the newest one.
        version: Of this software.
        figures: Of the flow.
        histograms: By name of the registry.
        labelled: Figures with one bounded label: name -> its value -> the figure.
        topics: Upstream, in the order of their names.
        groups: In the order of their names.
        events: The last ones, the newest first.
        clusters: The source and the target.
        ended_at: When the flow ended; None while it runs.
        exit_code: How; the same.
        text: Why it ended, if it failed.
        measured: The `steady` time of the look, in the process that has made it.
    """

    flow: Flow
    as_of: float
    state: FlowState
    since: float
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    owner: Owner | None = None
    epoch: int | None = None
    mode: Mode | None = None
    runs: Job | None = None
    generation: int | None = None
    version: str = ""
    figures: Figures = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    labelled: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    topics: tuple[TopicFigures, ...] = ()
    groups: tuple[GroupFigures, ...] = ()
    events: tuple[EventRow, ...] = ()
    clusters: tuple[ClusterFigures, ...] = ()
    ended_at: float | None = None
    exit_code: int | None = None
    text: str = ""
    measured: float | None = field(default=None, compare=False)

    @property
    def clock(self) -> float:
        """When it was measured, by a clock that nobody sets, as far as there is one."""
        return self.as_of if self.measured is None else self.measured

    @property
    def health(self) -> Health:
        """How healthy the flow is, by its conditions."""
        return health_of(self.conditions)
