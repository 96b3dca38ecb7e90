"""One look at a flow, with all figures that may be shown of it. Pure.

What is unknown is absent: never 0, never NaN. All times are epoch seconds with milliseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from replication.figures.histogram import QUANTILES, Histogram
from replication.figures.lag import EPOCH, utc
from replication.figures.registry import FIGURES, Level, names_at
from replication.foreign_json import (
    Form,
    from_json,
    in_json,
    json_object,
    number,
    text,
    to_json,
    whole,
)
from replication.model import EventKind, Flow, Job, Mode, Part, Reaction


def text_of(seconds: float) -> str:
    """Returns epoch *seconds* as text in UTC, to the millisecond: ``2026-11-26T10:00:05.120Z``."""
    return utc(seconds).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def seconds_of(shown: str) -> float:
    """Returns the epoch seconds of a `text_of`.

    Raises:
        ValueError: *shown* is not one.
    """
    at = datetime.fromisoformat(shown.removesuffix("Z")).replace(tzinfo=timezone.utc)
    return (at - EPOCH) // timedelta(milliseconds=1) / 1000


Time = Annotated[float, Form(lambda shown: seconds_of(text(shown)), text_of)]
"""Epoch seconds; text in JSON."""

_ANY_TEXT: Final = Form(text, str)
"""Of what a later version may know others."""


def _known(found: object) -> dict[str, float]:
    """Returns the plain figures of *found*; null is unknown, and a histogram has its own place."""
    return {
        name: number(value)
        for name, value in json_object(found).items()
        if value is not None and type(value) is not dict
    }


def _figures_at(level: Level) -> Form:
    """Returns the form of figures at *level*: null is what is unknown."""
    names = names_at(level)
    return Form(_known, lambda figures: {name: figures.get(name) for name in names})


def _read_details(found: object) -> dict[str, str | int]:
    return {
        name: value if type(value) is str else whole(value, least=-1)
        for name, value in json_object(found).items()
        if value is not None
    }


# What holds of a flow that an operator should know, and how healthy that makes it.

Code = Literal[
    "set-aside",
    "stalled",
    "lag-above-slo",
    "map-old",
    "group-blocked",
    "group-without-position",
    "heartbeats-missing",
    "cluster-unreachable",
    "records-not-reported",
    "offsets-given-up",
    "restarting",
    "state-not-written",
    "clock-skew",
    "retention-near",
    "target-keeps-less",
    "dead-letters",
    "topic-gone",
]
"""The kinds of conditions."""

Severity = Literal["degraded", "bad"]
Health = Literal["ok", "degraded", "bad"]

SEVERITIES: Final[Mapping[Code, Severity]] = MappingProxyType(
    {
        "set-aside": "bad",
        "stalled": "bad",
        "lag-above-slo": "degraded",
        "map-old": "degraded",
        "group-blocked": "degraded",
        "group-without-position": "degraded",
        "heartbeats-missing": "degraded",
        "cluster-unreachable": "bad",
        "records-not-reported": "degraded",
        "offsets-given-up": "bad",
        "restarting": "degraded",
        "state-not-written": "bad",
        "clock-skew": "degraded",
        "retention-near": "bad",
        "target-keeps-less": "degraded",
        "dead-letters": "degraded",
        "topic-gone": "degraded",
    }
)
"""How much a condition weighs. Bad is what loses or withholds records, or is about to."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds now.

    Args:
        code: Its kind.
        severity: How much it weighs.
        since: When it began, in epoch seconds.
        text: What holds, in a sentence.
        next_step: A command to copy, or what else to do.
        topic: The upstream topic that it is about; None if it is about the flow or a group.
    """

    code: Annotated[Code, _ANY_TEXT]
    severity: Severity
    since: Time
    text: str
    next_step: str = ""
    topic: str | None = None


def health_of(conditions: Iterable[Condition]) -> Health:
    """Returns the health that *conditions* leave: as bad as the worst of them."""
    severities = {condition.severity for condition in conditions}
    if "bad" in severities:
        return "bad"
    return "degraded" if severities else "ok"


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

DOCTOR: Final = "python -m replication doctor FILE"
"""The next step where nothing more is known of what is wrong."""

ENDED: Final = frozenset[FlowState]({"drained", "stopped", "failed"})

TopicState = Literal[
    "copying",
    "paused",
    "catching-up",
    "lagging",
    "stalled",
    "set-aside",
    "leaderless",
    "deleted",
]
"""What a topic or partition does: the worst of its partitions counts for a topic. What an operator
has paused is so whatever else it would be, and worse than what is copied without a lag. A topic
that was deleted on a side, or created again, is `deleted` until it is copied again. A partition
that began with nothing on the target, or that an operator has moved back, is `catching-up`, as long
as this backlog shrinks."""

Answer = Literal["exact", "bounded", "none", "waiting"]
"""How a group's commit in a partition is translated."""

Figures = Annotated[Mapping[str, float], Form(_known, dict)]
"""By names of the registry; what is unknown is absent."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a *part* of a flow since a time."""

    host: str
    pid: int
    since: Time
    part: Part = "records"


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One partition of an upstream topic."""

    partition: int
    state: TopicState
    figures: Annotated[Figures, _figures_at("partition")]


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One upstream topic.

    Args:
        topic: Its name.
        remote: The name of its copy; None if it has none yet.
        state: The worst of its partitions'.
        reason: Why it is set aside, or what became of it; else "".
        figures: Sums and worst values of its partitions.
        latency: By quantile, of the last 60 s: "0.5", "0.99", "1"; empty where none is known.
        partitions: In their order.
    """

    topic: str
    remote: str | None
    state: TopicState
    reason: str
    figures: Annotated[Figures, _figures_at("topic")]
    latency: Figures = field(default_factory=dict, metadata=in_json("topic_latency_seconds"))
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
    figures: Annotated[Figures, _figures_at("group")]
    answers: Mapping[Answer, int] = field(metadata=in_json("partitions"))


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One cluster of the flow: whether it answers, since when, and how far its clock is ahead."""

    name: str
    is_reachable: bool = field(metadata=in_json("reachable"))
    since: Time | None = None
    skew: float | None = field(default=None, metadata=in_json("clock_skew_seconds"))


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of the table ``events``; *details* are its further columns."""

    at: Time
    kind: Annotated[EventKind, _ANY_TEXT]
    text: str
    reaction: Annotated[Reaction, _ANY_TEXT]
    details: Annotated[Mapping[str, str | int], Form(_read_details, dict)] = field(
        default_factory=dict
    )


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
        histograms: By name of the registry, since the process began.
        quantiles: The same names -> those of the last minute, where it has durations.
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
    as_of: Time
    state: FlowState
    since: Time
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    owner: Owner | None = None
    epoch: int | None = None
    mode: Mode | None = None
    runs: Job | None = None
    generation: int | None = None
    version: str = ""
    figures: Annotated[Figures, _figures_at("flow")] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict, metadata=in_json(""))
    quantiles: Mapping[str, Figures] = field(default_factory=dict, metadata=in_json(""))
    labelled: Mapping[str, Figures] = field(default_factory=dict)
    topics: tuple[TopicFigures, ...] = ()
    groups: tuple[GroupFigures, ...] = ()
    events: tuple[EventRow, ...] = ()
    clusters: tuple[ClusterFigures, ...] = ()
    ended_at: Time | None = None
    exit_code: int | None = None
    text: str = ""
    measured: float | None = field(default=None, compare=False, metadata=in_json(""))

    @property
    def clock(self) -> float:
        """When it was measured, by a clock that nobody sets, as far as there is one."""
        return self.as_of if self.measured is None else self.measured

    @property
    def health(self) -> Health:
        """How healthy the flow is, by its conditions."""
        return health_of(self.conditions)


# An observation as JSON: what commands print, the status topic holds and REST answers.


def document(observed: Observation, *, is_stale: bool = False) -> dict[str, Any]:
    """Returns *observed* as JSON has it, with its keys in order and null for what is unknown.

    Args:
        observed: One look.
        is_stale: Whether whoever shows it should have a newer one.
    """
    shown = {**to_json(observed), "stale": is_stale, "health": observed.health}
    for figure in FIGURES:
        if figure.kind == "histogram":
            found = observed.histograms.get(figure.name)
            recent = {**dict.fromkeys(QUANTILES), **observed.quantiles.get(figure.name, {})}
            shown["figures"][figure.name] = found and {**recent, **found.document()}
    ordered: dict[str, Any] = _in_order(shown)
    return ordered


def _in_order(found: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(found, dict):
        return {key: _in_order(found[key]) for key in sorted(found)}
    return list(map(_in_order, found)) if isinstance(found, list) else found


def topic_document(topic: TopicFigures) -> dict[str, Any]:
    """Returns what is known of a topic, without its partitions."""
    shown: dict[str, Any] = to_json(replace(topic, partitions=()))
    del shown["partitions"]
    return shown


def observation(found: Mapping[str, Any]) -> Observation:
    """Returns what *found*, a `document`, says. Keys that this version does not know are ignored.

    Whoever may write a record of the status topic may have written it, so nothing is taken whose
    type is another one, and no number that is none.

    Raises:
        KeyError: Something is missing, so that it is no such document.
        TypeError: A part of it is of another kind; the same.
        ValueError: A time, a state or a number is not one; the same.
    """
    plain = from_json(Observation, found)
    histograms = {
        name: Histogram.read(value)
        for name, value in found["figures"].items()
        if isinstance(value, dict)
    }
    quantiles = {
        name: known
        for name in histograms
        if (known := _known({share: found["figures"][name].get(share) for share in QUANTILES}))
    }
    return replace(plain, histograms=histograms, quantiles=quantiles)
