"""Observations of flows that tests make up: every figure is known, unless a test says otherwise."""

from dataclasses import replace
from typing import Any, get_args

from replication.figures.histogram import BOUNDS, Histogram
from replication.figures.observation import (
    SEVERITIES,
    ClusterFigures,
    Code,
    Condition,
    GroupFigures,
    Observation,
    Owner,
    PartitionFigures,
    TopicFigures,
    TopicState,
)
from replication.figures.registry import FIGURES, names_at
from replication.model import Flow

NOW = 1_800_000_000.0
A_TO_B = Flow("A", "B")

LABELLED = {
    "executors": {"alive": 2.0},
    "source_tasks": {"shared": 2.0},
    "throttle_seconds": {"B": 0.25},
    "partitions": dict.fromkeys(get_args(TopicState), 0.0) | {"copying": 2.0, "lagging": 1.0},
    "task_slots": {"used": 8.0, "free": 2.0},
    "jvm_heap_bytes": {"used": 5e8, "max": 2e9},
    "restarts_total": {"records": 1.0},
    "limit_bytes_per_second": {"*": 2e7},
    "limit_used_bytes_per_second": {"*": 1.98e7},
    "limit_records_per_second": {"clicks.*": 500.0},
    "limit_used_records_per_second": {"clicks.*": 12.0},
    "limit_waiting": {"*": 1.0, "clicks.*": 0.0},
}
"""Figures with one label, as an observation has them."""


def topic(name: str, records: float = 100.0, **more: Any) -> TopicFigures:  # noqa: ANN401 - any field
    """One topic, of one partition that keeps up."""
    figures = dict.fromkeys(names_at("topic"), 1.0) | {"records_total": records}
    del figures["retention_headroom_seconds"]  # which only a topic that lags has
    figures["lag_unknown_partitions"] = 0.0
    part = PartitionFigures(0, "copying", dict.fromkeys(names_at("partition"), 0.0))
    latency = {"0.5": 0.004, "0.99": 0.02, "1": 0.5}
    given = TopicFigures(name, f"A.{name}", "copying", "", figures, latency, (part,))
    return replace(given, **more)


def lagging(name: str, seconds: float) -> TopicFigures:
    """A topic whose only partition lags."""
    figures = {"lag_seconds": seconds, "lag_records": 7.0, "records_total": 100.0}
    figures["retention_headroom_seconds"] = 300_000.0
    part = PartitionFigures(0, "lagging", {"lag_seconds": seconds, "lag_records": 7.0})
    return topic(name, state="lagging", figures=figures, partitions=(part,))


def paused(name: str, seconds: float = 90.0) -> TopicFigures:
    """A topic of two partitions, one of which an operator has paused: it is behind."""
    parts = (
        PartitionFigures(0, "paused", {"lag_seconds": seconds, "lag_records": 7.0}),
        PartitionFigures(1, "copying", {"lag_seconds": 0.0, "lag_records": 0.0}),
    )
    figures = {"lag_seconds": seconds, "lag_records": 7.0, "unpaused_lag_seconds": 0.0}
    return topic(name, state="paused", figures=figures, partitions=parts)


def group(name: str, **figures: float) -> GroupFigures:
    """A group with all its figures."""
    known = dict.fromkeys(names_at("group"), 0.0) | figures
    return GroupFigures(name, known, {"exact": 3, "bounded": 1})


def set_aside(name: str, reason: str = "it was created again") -> TopicFigures:
    """A topic that is set aside."""
    part = PartitionFigures(0, "set-aside", {})
    return topic(name, state="set-aside", reason=reason, partitions=(part,))


def condition(code: Code, topic_name: str | None = None) -> Condition:
    """A condition that holds since a minute."""
    return Condition(code, SEVERITIES[code], NOW - 60, "text", "next step", topic_name)


def observed(**more: Any) -> Observation:  # noqa: ANN401 - any field
    """A flow that runs, with every figure known; *more* takes the place of what it names."""
    histogram = Histogram.of([1] * (len(BOUNDS) + 1), 42.5)
    given = Observation(
        flow=A_TO_B,
        as_of=NOW,
        state="running",
        since=NOW - 3600,
        owner=Owner("etl-7", 4211, NOW - 3600),
        epoch=4,
        mode="realtime",
        runs="mirror",
        generation=3,
        version="0.1.0",
        figures=dict.fromkeys(names_at("flow"), 1.0) | {"lag_unknown_partitions": 0.0},
        histograms={figure.name: histogram for figure in FIGURES if figure.kind == "histogram"},
        quantiles={"latency_seconds": {"p50": 0.004, "p99": 0.02, "p999": 0.3, "max": 0.5}},
        labelled=LABELLED,
        topics=(topic("orders"), lagging("payments", 90.0), set_aside("audit")),
        groups=(group("billing"),),
        clusters=(
            ClusterFigures("A", is_reachable=True, skew=0.01),
            ClusterFigures("B", is_reachable=True, skew=-0.02),
        ),
    )
    return replace(given, **more)
