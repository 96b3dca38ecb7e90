"""An observation as JSON: what commands print, the status topic holds and REST answers. Pure.

What is unknown is null, never 0 and never NaN. Times are text in UTC, with milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from replication.figures.clocks import EPOCH, utc
from replication.figures.health import Condition
from replication.figures.histogram import Histogram
from replication.figures.observation import (
    ClusterFigures,
    EventRow,
    Figures,
    GroupFigures,
    Observation,
    Owner,
    PartitionFigures,
    TopicFigures,
)
from replication.figures.registry import FIGURES, Level, names_at
from replication.model import Flow


def document(observed: Observation, *, is_stale: bool = False) -> dict[str, Any]:
    """Returns *observed* as JSON has it, with its keys in order and null for what is unknown.

    Args:
        observed: One look.
        is_stale: Whether whoever shows it should have a newer one.
    """
    found = {
        "flow": flow_document(observed.flow),
        "as_of": text_of(observed.as_of),
        "stale": is_stale,
        "state": observed.state,
        "since": text_of(observed.since),
        "reason": observed.reason,
        "health": observed.health,
        "conditions": [_condition(condition) for condition in observed.conditions],
        "owner": observed.owner and _owner(observed.owner),
        "epoch": observed.epoch,
        "mode": observed.mode,
        "runs": observed.runs,
        "generation": observed.generation,
        "version": observed.version,
        "figures": {
            **_known_or_null("flow", observed.figures),
            **_histograms(observed.histograms),
        },
        "labelled": {name: dict(values) for name, values in observed.labelled.items()},
        "topics": list(map(topic_row, observed.topics)),
        "groups": list(map(group_document, observed.groups)),
        "events": [_event(event) for event in observed.events],
        "clusters": [_cluster(cluster) for cluster in observed.clusters],
        "ended_at": _optional(observed.ended_at),
        "exit_code": observed.exit_code,
        "text": observed.text,
    }
    ordered: dict[str, Any] = _in_order(found)
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

    Raises:
        KeyError: Something is missing, so that it is no such document.
        TypeError: A part of it is of another kind; the same.
        ValueError: A time is not one; the same.
    """
    plain, owner = found["figures"], found["owner"]
    return Observation(
        flow=Flow(found["flow"]["source"], found["flow"]["target"]),
        as_of=seconds_of(found["as_of"]),
        state=found["state"],
        since=seconds_of(found["since"]),
        reason=found["reason"],
        conditions=tuple(map(_read_condition, found["conditions"])),
        owner=owner
        and Owner(owner["host"], owner["pid"], seconds_of(owner["since"]), owner["part"]),
        epoch=found["epoch"],
        mode=found["mode"],
        runs=found["runs"],
        generation=found["generation"],
        version=found["version"],
        figures=_known(plain),
        histograms={
            name: Histogram.read(value) for name, value in plain.items() if isinstance(value, dict)
        },
        labelled=found["labelled"],
        topics=tuple(map(read_topic, found["topics"])),
        groups=tuple(
            GroupFigures(row["group"], _known(row["figures"]), row["partitions"])
            for row in found["groups"]
        ),
        events=tuple(map(_read_event, found["events"])),
        clusters=tuple(
            ClusterFigures(
                row["name"],
                row["reachable"],
                _read_optional(row["since"]),
                row["clock_skew_seconds"],
            )
            for row in found["clusters"]
        ),
        ended_at=_read_optional(found["ended_at"]),
        exit_code=found["exit_code"],
        text=found["text"],
    )


def text_of(seconds: float) -> str:
    """Returns epoch *seconds* as text in UTC, to the millisecond: ``2026-11-26T10:00:05.120Z``."""
    return utc(seconds).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def seconds_of(text: str) -> float:
    """Returns the epoch seconds of a `text_of`.

    Raises:
        ValueError: *text* is not one.
    """
    at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=timezone.utc)
    return (at - EPOCH) // timedelta(milliseconds=1) / 1000


def _optional(seconds: float | None) -> str | None:
    return None if seconds is None else text_of(seconds)


def _read_optional(text: str | None) -> float | None:
    return None if text is None else seconds_of(text)


def _histograms(found: Mapping[str, Histogram]) -> dict[str, object]:
    return {
        figure.name: found[figure.name].document() if figure.name in found else None
        for figure in FIGURES
        if figure.kind == "histogram"
    }


def _known(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def _owner(owner: Owner) -> dict[str, object]:
    since = text_of(owner.since)
    return {"host": owner.host, "pid": owner.pid, "since": since, "part": owner.part}


def _condition(condition: Condition) -> dict[str, object]:
    return {
        "code": condition.code,
        "severity": condition.severity,
        "since": text_of(condition.since),
        "text": condition.text,
        "next_step": condition.next_step,
        "topic": condition.topic,
    }


def _read_condition(row: Mapping[str, Any]) -> Condition:
    since = seconds_of(row["since"])
    return Condition(
        row["code"], row["severity"], since, row["text"], row["next_step"], row["topic"]
    )


def read_topic(row: Mapping[str, Any]) -> TopicFigures:
    """Returns what *row*, a topic of a `document`, says; it raises what `observation` does."""
    partitions: Iterable[Mapping[str, Any]] = row["partitions"]
    return TopicFigures(
        row["topic"],
        row["remote"],
        row["state"],
        row["reason"],
        _known(row["figures"]),
        row["topic_latency_seconds"],
        tuple(
            PartitionFigures(part["partition"], part["state"], _known(part["figures"]))
            for part in partitions
        ),
    )


def _event(event: EventRow) -> dict[str, object]:
    at = text_of(event.at)
    own = {"at": at, "kind": event.kind, "text": event.text, "reaction": event.reaction}
    return {**own, "details": dict(event.details)}


def _read_event(row: Mapping[str, Any]) -> EventRow:
    at = seconds_of(row["at"])
    return EventRow(at, row["kind"], row["text"], row["reaction"], row["details"])


def _cluster(cluster: ClusterFigures) -> dict[str, object]:
    return {
        "name": cluster.name,
        "reachable": cluster.is_reachable,
        "since": _optional(cluster.since),
        "clock_skew_seconds": cluster.skew,
    }


def _in_order(found: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(found, dict):
        return {key: _in_order(found[key]) for key in sorted(found)}
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_in_order(part) for part in found]
    return found
