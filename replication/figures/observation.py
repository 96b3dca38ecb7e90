"""One look at a flow, with all figures that may be shown of it. Pure.

What is unknown is absent: never 0, never NaN. All times are epoch seconds with milliseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, cast, get_args

from replication.figures.histogram import Histogram
from replication.figures.lag import EPOCH, utc
from replication.figures.registry import FIGURES, Level, names_at
from replication.foreign_json import number, text, whole
from replication.model import EventKind, Flow, Job, Mode, Part, Reaction

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

    code: Code
    severity: Severity
    since: float
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


# An observation as JSON: what commands print, the status topic holds and REST answers.
#
# What is unknown is null, never 0 and never NaN. Times are text in UTC, with milliseconds.

_Read = TypeVar("_Read")


def document(observed: Observation, *, is_stale: bool = False) -> dict[str, Any]:
    """Returns *observed* as JSON has it, with its keys in order and null for what is unknown.

    Args:
        observed: One look.
        is_stale: Whether whoever shows it should have a newer one.
    """
    owner = observed.owner
    shown = {
        "flow": flow_document(observed.flow),
        "as_of": text_of(observed.as_of),
        "stale": is_stale,
        "state": observed.state,
        "since": text_of(observed.since),
        "reason": observed.reason,
        "health": observed.health,
        "conditions": [
            {
                "code": condition.code,
                "severity": condition.severity,
                "since": text_of(condition.since),
                "text": condition.text,
                "next_step": condition.next_step,
                "topic": condition.topic,
            }
            for condition in observed.conditions
        ],
        "owner": owner
        and {
            "host": owner.host,
            "pid": owner.pid,
            "since": text_of(owner.since),
            "part": owner.part,
        },
        "epoch": observed.epoch,
        "mode": observed.mode,
        "runs": observed.runs,
        "generation": observed.generation,
        "version": observed.version,
        "figures": {
            **_known_or_null("flow", observed.figures),
            **{
                figure.name: (found := observed.histograms.get(figure.name)) and found.document()
                for figure in FIGURES
                if figure.kind == "histogram"
            },
        },
        "labelled": {name: dict(values) for name, values in observed.labelled.items()},
        "topics": list(map(topic_row, observed.topics)),
        "groups": list(map(group_document, observed.groups)),
        "events": [
            {
                "at": text_of(event.at),
                "kind": event.kind,
                "text": event.text,
                "reaction": event.reaction,
                "details": dict(event.details),
            }
            for event in observed.events
        ],
        "clusters": [
            {
                "name": cluster.name,
                "reachable": cluster.is_reachable,
                "since": _optional(cluster.since),
                "clock_skew_seconds": cluster.skew,
            }
            for cluster in observed.clusters
        ],
        "ended_at": _optional(observed.ended_at),
        "exit_code": observed.exit_code,
        "text": observed.text,
    }
    ordered: dict[str, Any] = _in_order(shown)
    return ordered


def flow_document(flow: Flow) -> dict[str, str]:
    """Returns the name of a flow."""
    return {"source": flow.source, "target": flow.target}


def topic_document(topic: TopicFigures) -> dict[str, Any]:
    """Returns what is known of a topic, without its partitions."""
    return {
        "topic": topic.topic,
        "remote": topic.remote,
        "state": topic.state,
        "reason": topic.reason,
        "figures": _known_or_null("topic", topic.figures),
        "topic_latency_seconds": dict(topic.latency),
    }


def topic_row(topic: TopicFigures) -> dict[str, Any]:
    """Returns what is known of a topic and of its partitions."""
    partitions = list(map(partition_document, topic.partitions))
    return topic_document(topic) | {"partitions": partitions}


def partition_document(part: PartitionFigures) -> dict[str, Any]:
    """Returns what is known of a partition."""
    figures = _known_or_null("partition", part.figures)
    return {"partition": part.partition, "state": part.state, "figures": figures}


def group_document(group: GroupFigures) -> dict[str, Any]:
    """Returns what is known of a consumer group."""
    figures = _known_or_null("group", group.figures)
    return {"group": group.group, "figures": figures, "partitions": dict(group.answers)}


def _known_or_null(level: Level, figures: Figures) -> dict[str, float | None]:
    return {name: figures.get(name) for name in names_at(level)}


def observation(found: Mapping[str, Any]) -> Observation:
    """Returns what *found*, a `document`, says. Keys that this version does not know are ignored.

    Whoever may write a record of the status topic may have written it, so nothing is taken whose
    type is another one, and no number that is none.

    Raises:
        KeyError: Something is missing, so that it is no such document.
        TypeError: A part of it is of another kind; the same.
        ValueError: A time, a state or a number is not one; the same.
    """
    plain, owner = _object(found["figures"]), found["owner"]
    return Observation(
        flow=Flow(text(found["flow"]["source"]), text(found["flow"]["target"])),
        as_of=seconds_of(text(found["as_of"])),
        state=_one_of(FlowState, found["state"]),
        since=seconds_of(text(found["since"])),
        reason=text(found["reason"]),
        conditions=tuple(map(_read_condition, found["conditions"])),
        owner=None
        if owner is None
        else Owner(
            text(owner["host"]),
            whole(owner["pid"]),
            seconds_of(text(owner["since"])),
            _one_of(Part, owner["part"]),
        ),
        epoch=_or_none(whole, found["epoch"]),
        mode=_or_none(partial(_one_of, Mode), found["mode"]),
        runs=_or_none(partial(_one_of, Job), found["runs"]),
        generation=_or_none(whole, found["generation"]),
        version=text(found["version"]),
        figures=_known(plain),
        histograms={
            name: Histogram.read(value) for name, value in plain.items() if isinstance(value, dict)
        },
        labelled={
            name: _known(_object(values)) for name, values in _object(found["labelled"]).items()
        },
        topics=tuple(map(read_topic, found["topics"])),
        groups=tuple(map(_read_group, found["groups"])),
        events=tuple(map(_read_event, found["events"])),
        clusters=tuple(
            ClusterFigures(
                text(row["name"]),
                row["reachable"] is True,
                _read_optional(row["since"]),
                _or_none(number, row["clock_skew_seconds"]),
            )
            for row in found["clusters"]
        ),
        ended_at=_read_optional(found["ended_at"]),
        exit_code=_or_none(whole, found["exit_code"]),
        text=text(found["text"]),
    )


def _or_none(read: Callable[[object], _Read], value: object) -> _Read | None:
    return None if value is None else read(value)


def _one_of(choices: Any, value: object) -> Any:  # noqa: ANN401 - a Literal is no type of a value
    if value not in get_args(choices):
        raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(get_args(choices))}")
    return value


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object is missing, got {type(value).__name__}")
    return value


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


def _optional(seconds: float | None) -> str | None:
    return None if seconds is None else text_of(seconds)


def _read_optional(at: object) -> float | None:
    return None if at is None else seconds_of(text(at))


def _known(found: Mapping[str, Any]) -> dict[str, float]:
    """Returns the plain figures of *found*; null is unknown, and a histogram has its own place."""
    return {
        name: number(value)
        for name, value in found.items()
        if value is not None and type(value) is not dict
    }


def _read_condition(row: Mapping[str, Any]) -> Condition:
    # a later version may know another code
    code, severity = cast("Code", text(row["code"])), _one_of(Severity, row["severity"])
    since, step = seconds_of(text(row["since"])), text(row["next_step"])
    return Condition(code, severity, since, text(row["text"]), step, _or_none(text, row["topic"]))


def _read_group(row: Mapping[str, Any]) -> GroupFigures:
    answers = {
        _one_of(Answer, answer): whole(count)
        for answer, count in _object(row["partitions"]).items()
    }
    return GroupFigures(text(row["group"]), _known(_object(row["figures"])), answers)


def read_topic(row: Mapping[str, Any]) -> TopicFigures:
    """Returns what *row*, a topic of a `document`, says; it raises what `observation` does."""
    return TopicFigures(
        text(row["topic"]),
        _or_none(text, row["remote"]),
        _one_of(TopicState, row["state"]),
        text(row["reason"]),
        _known(_object(row["figures"])),
        _known(_object(row["topic_latency_seconds"])),
        tuple(
            PartitionFigures(
                whole(part["partition"]),
                _one_of(TopicState, part["state"]),
                _known(_object(part["figures"])),
            )
            for part in row["partitions"]
        ),
    )


def _read_event(row: Mapping[str, Any]) -> EventRow:
    at, details = seconds_of(text(row["at"])), _object(row["details"])
    # a later version may know another kind, and another reaction
    kind = cast("EventKind", text(row["kind"]))
    reaction = cast("Reaction", text(row["reaction"]))
    plain = {
        name: value if type(value) is str else whole(value, least=-1)
        for name, value in details.items()
        if value is not None
    }
    return EventRow(at, kind, text(row["text"]), reaction, plain)


def _in_order(found: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(found, dict):
        return {key: _in_order(found[key]) for key in sorted(found)}
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_in_order(part) for part in found]
    return found
