"""What is answered of a flow, as plain documents, from what was seen of it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from replication.figures.minutes import CountedMinutes
from replication.figures.observation import (
    EventRow,
    Observation,
    TopicFigures,
    document,
    text_of,
)
from replication.foreign_json import to_json
from replication.model import Flow
from replication.serve.charts import Point
from replication.serve.snapshots import FlowSnapshot

LISTS: Final = ("topics", "groups", "events")
"""Parts of an observation's document that have answers of their own."""


def flow_answer(seen: FlowSnapshot) -> dict[str, Any]:
    """Returns what is known of a flow, without its topics, groups and events."""
    observed = seen.observation
    known = observed or Observation(seen.flow, 0.0, "starting", 0.0)
    found = document(replace(known, topics=(), groups=(), events=()), is_stale=seen.is_stale)
    if observed is None:
        found |= dict.fromkeys(("since", "as_of"))
    return {
        **{key: value for key, value in found.items() if key not in LISTS},
        "state": seen.state,
        "last_state": observed and observed.state,
        "health": None if seen.health == "unknown" else seen.health,
        "standbys": observed and seen.standbys,
        "text": seen.text or known.text,
    }


def clusters_of(snapshots: Sequence[FlowSnapshot]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name of a cluster, and what the owner of a flow says of it."""
    for seen in snapshots:
        for cluster in seen.observation.clusters if seen.observation else ():
            said = to_json(cluster)
            if seen.is_stale:  # how it is now, nobody has said
                said |= dict.fromkeys(("reachable", "since", "clock_skew_seconds"))
            yield said.pop("name"), {"flow": to_json(seen.flow), **said}


def event_answer(flow: Flow, row: EventRow) -> dict[str, Any]:
    """Returns an event of a flow."""
    return {"flow": to_json(flow), **to_json(row)}


def heartbeat_answer(seen: FlowSnapshot, now: float) -> dict[str, Any]:
    """Returns how old the newest heartbeat of a flow is at *now*, in epoch seconds."""
    figures = seen.observation.figures if seen.observation else {}
    at = figures.get("heartbeat_timestamp_seconds")
    return {
        "flow": to_json(seen.flow),
        "timestamp": None if at is None else text_of(at),
        "age_seconds": None if at is None else max(0.0, now - at),
        "latency_seconds": figures.get("heartbeat_latency_seconds"),
    }


FRESH_SHARE: Final = 0.999
FRESH_DAYS: Final = 30
"""The objective: in so many days, this share of the minutes has no lag above the flow's limit."""

_BUDGET_MINUTES: Final = FRESH_DAYS * 1440 * (1 - FRESH_SHARE)


def freshness_answer(
    flow: Flow, lag_seconds: float, counted: CountedMinutes | None
) -> dict[str, Any]:
    """Returns what is left of the minutes in which a flow may lag more than *lag_seconds*.

    *counted* are its minutes of history, and the late ones among them; None if out of reach.
    """
    known = counted if counted is not None and counted.known else None
    return {
        "flow": to_json(flow),
        "lag_seconds": lag_seconds,
        "objective": FRESH_SHARE,
        "days": FRESH_DAYS,
        "minutes": None if known is None else known.known,
        "late_minutes": None if known is None else known.late,
        "paused_minutes": None if known is None else known.paused,
        "fresh_share": None if known is None else 1 - known.late / known.known,
        "budget_minutes": round(_BUDGET_MINUTES, 1),
        "left_minutes": None if known is None else round(_BUDGET_MINUTES - known.late, 1),
    }


def steps(points: Sequence[Point], seconds: float) -> list[dict[str, Any]]:
    """Returns *points* by steps of *seconds*: the least, the greatest, the mean and the sum."""
    found: dict[float, list[float | None]] = {}
    for at, value in points:
        found.setdefault(at - at % seconds, []).append(value)
    answer = []
    for at, values in sorted(found.items()):
        known = [value for value in values if value is not None]
        answer.append(
            {
                "at": text_of(at),
                "min": min(known, default=None),
                "max": max(known, default=None),
                "avg": sum(known) / len(known) if known else None,
                "sum": sum(known) if known else None,
            }
        )
    return answer


def find_topic(observed: Observation | None, name: str) -> TopicFigures | None:
    """Returns a topic of an observation by its upstream or its remote name; None if none has it."""
    topics = observed.topics if observed else ()
    exact = (topic for topic in topics if topic.topic == name)
    return next(exact, next((topic for topic in topics if topic.remote == name), None))
