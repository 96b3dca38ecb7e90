"""The figures of flows as series of Prometheus.

Names, kinds and texts are those of the registry of figures. What is unknown has no series. A
counter with a bounded label exists with 0 from the start for each of its values: one that appears
with its first event never makes ``increase`` fire.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from replication.figures.histogram import BOUNDS
from replication.figures.observation import (
    ENDED,
    Answer,
    Code,
    FlowState,
    Observation,
    TopicFigures,
)
from replication.figures.registry import BOUNDED, FIGURES, PREFIX, Figure
from replication.metrics.limits import Cut, Cutter, Limits
from replication.model import Flow

# The figures under the names of Strimzi's exporter for MirrorMaker 2, for boards that exist.
#
# MirrorMaker 2 has a series for each partition; here is one for each topic, with an empty
# partition, so sums and maxima of a board are right. What it measures otherwise is in
# conf/docs/prometheus.md.

SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector_"
MILLISECONDS: Final = 1000.0

_LABELS: Final = ("source", "target", "topic", "partition")
_GROUP_LABELS: Final = ("source", "target", "group", "topic", "partition")


def _figure(name: str, factor: float = 1.0) -> Callable[[TopicFigures], float | None]:
    def read(topic: TopicFigures) -> float | None:
        value = topic.figures.get(name)
        return None if value is None else value * factor

    return read


def _latency(quantile: str) -> Callable[[TopicFigures], float | None]:
    def read(topic: TopicFigures) -> float | None:
        value = topic.latency.get(quantile)
        return None if value is None else value * MILLISECONDS

    return read


OF_TOPICS: Final[Mapping[str, tuple[str, Callable[[TopicFigures], float | None]]]] = {
    "record_count": ("records_total", _figure("records_total")),
    "record_rate": ("records_per_second", _figure("records_per_second")),
    "byte_count": ("bytes_total, key and value", _figure("bytes_total")),
    "byte_rate": ("bytes_per_second, key and value", _figure("bytes_per_second")),
    "record_age_ms": ("lag_seconds", _figure("lag_seconds", MILLISECONDS)),
    "record_age_ms_max": ("lag_seconds", _figure("lag_seconds", MILLISECONDS)),
    "replication_latency_ms": ("the median over 60 s", _latency("0.5")),
    "replication_latency_ms_avg": ("the median over 60 s", _latency("0.5")),
    "replication_latency_ms_max": ("the maximum over 60 s", _latency("1")),
}
"""MirrorMaker 2's name -> what it is here, and how it is read."""


def mm2_families(cuts: Sequence[Cut]) -> Iterator[Metric]:
    """Yields the families of MirrorMaker 2's names for the flows that run."""
    for name, (meaning, read) in OF_TOPICS.items():
        family = GaugeMetricFamily(SOURCE + name, _help(name, meaning), labels=_LABELS)
        for cut in cuts:
            flow = cut.observed.flow
            for topic in cut.topics:
                value = read(topic)
                if value is not None:
                    named = topic.remote or topic.topic
                    family.add_metric((flow.source, flow.target, named, ""), value)
        yield family
    name = "checkpoint_latency_ms_avg"
    meaning = "the mean of checkpoint_seconds, of all groups together"
    family = GaugeMetricFamily(CHECKPOINT + name, _help(name, meaning), labels=_GROUP_LABELS)
    for cut in cuts:
        flow, found = cut.observed.flow, cut.observed.histograms.get("checkpoint_seconds")
        if found is not None and found.count:
            mean = found.sum / found.count * MILLISECONDS
            family.add_metric((flow.source, flow.target, "", "", ""), mean)
    yield family


def _help(name: str, meaning: str) -> str:
    return f"MirrorMaker 2's {name.replace('_', '-')}, here: {meaning}."


Row = tuple[Sequence[str], float]
"""The values of the labels of a figure, and its own."""

SILENT: Final = "silent"
"""The state of a flow that has said nothing for too long; only who reads knows it."""

LAST_WORDS: Final = frozenset(
    {
        "flow_state",
        "observed_timestamp_seconds",
        "started_timestamp_seconds",
        "ended_timestamp_seconds",
        "exit_code",
    }
)
"""What is shown of a flow that has ended or is silent. The rest would say what was, as if it were
now."""

LONGEST_REASON: Final = 120

_BOUNDS: Final = (*(str(bound) for bound in BOUNDS), "+Inf")


def nothing_further(_cuts: Sequence[Cut]) -> Iterable[Metric]:
    """Returns no families beside those of the registry of figures."""
    return ()


class FlowCollector(Collector):
    """Collects the series of the flows that a callable returns.

    Args:
        look: Returns the newest observation of each flow.
        limits: How many series a flow may have.
        is_stale: Whether an observation is so old that its flow is silent.
        further: Makes families of other names, from the flows that run.
    """

    def __init__(
        self,
        look: Callable[[], Iterable[Observation]],
        limits: Limits,
        is_stale: Callable[[Observation], bool] = lambda _observed: False,
        further: Callable[[Sequence[Cut]], Iterable[Metric]] = nothing_further,
    ) -> None:
        self._look = look
        self._limits = limits
        self._is_stale = is_stale
        self._further = further
        self._cutters = dict[Flow, Cutter]()

    def collect(self) -> Iterator[Metric]:
        """Yields the families of series, in the order of the registry."""
        cuts = [
            (
                self._cutters.setdefault(observed.flow, Cutter(self._limits)).cut(observed),
                self._is_stale(observed),
            )
            for observed in self._look()
        ]
        for figure in FIGURES:
            if figure.is_metric:
                yield _family(figure, cuts)
        live = [cut for cut, is_stale in cuts if _is_live(cut.observed, is_stale=is_stale)]
        yield from self._further(live)


def _is_live(observed: Observation, *, is_stale: bool) -> bool:
    return not is_stale and observed.state not in ENDED


def _family(figure: Figure, cuts: Sequence[tuple[Cut, bool]]) -> Metric:
    name, labels = PREFIX + figure.name, ("source", "target", *figure.labels)
    if figure.kind == "histogram":
        return _histograms(figure, name, labels, cuts)
    kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    family = kind(name, figure.meaning, labels=labels)
    for cut, is_stale in cuts:
        observed = cut.observed
        if figure.name not in LAST_WORDS and not _is_live(observed, is_stale=is_stale):
            continue
        rows = _states(observed, is_stale=is_stale) if figure.name == "flow_state" else None
        for values, value in _rows(figure, cut) if rows is None else rows:
            family.add_metric((observed.flow.source, observed.flow.target, *values), value)
    return family


def _histograms(
    figure: Figure, name: str, labels: Sequence[str], cuts: Sequence[tuple[Cut, bool]]
) -> Metric:
    family = HistogramMetricFamily(name, figure.meaning, labels=labels)
    for cut, is_stale in cuts:
        observed = cut.observed
        histogram = observed.histograms.get(figure.name)
        if histogram is not None and _is_live(observed, is_stale=is_stale):
            buckets = list(zip(_BOUNDS, histogram.counts, strict=True))
            family.add_metric((observed.flow.source, observed.flow.target), buckets, histogram.sum)
    return family


def _rows(figure: Figure, cut: Cut) -> Iterable[Row]:
    name, observed = figure.name, cut.observed
    if name in BOUNDED:
        counted = {**dict.fromkeys(BOUNDED[name], 0.0), **observed.labelled.get(name, {})}
        return [((value,), number) for value, number in counted.items()]
    if name in observed.labelled:
        return [((value,), number) for value, number in observed.labelled[name].items()]
    if name in _RULES:
        return _RULES[name](cut)
    if figure.labels == ("topic",):
        return _of_items(name, ((one.topic, one.figures) for one in cut.topics))
    if figure.labels == ("group",):
        return _of_items(name, ((one.group, one.figures) for one in cut.groups))
    value = observed.figures.get(name)
    return () if value is None else [((), value)]


def _of_items(name: str, items: Iterable[tuple[str, Mapping[str, float]]]) -> Iterable[Row]:
    return [((item,), figures[name]) for item, figures in items if name in figures]


def _states(observed: Observation, *, is_stale: bool) -> Iterable[Row]:
    present = SILENT if is_stale and observed.state not in ENDED else observed.state
    return [((state,), float(state == present)) for state in (*get_args(FlowState), SILENT)]


def _known(value: float | None) -> Iterable[Row]:
    return () if value is None else [((), value)]


def _info(cut: Cut) -> Iterable[Row]:
    observed = cut.observed
    host = observed.owner.host if observed.owner else ""
    return [((observed.mode or "", observed.runs or "", host, observed.version), 1.0)]


def _conditions(cut: Cut) -> Iterable[Row]:
    held = {condition.code for condition in cut.observed.conditions}
    return [((code,), float(code in held)) for code in get_args(Code)]


def _latencies(cut: Cut) -> Iterable[Row]:
    return [
        ((topic.topic, quantile), seconds)
        for topic in cut.busiest
        for quantile, seconds in topic.latency.items()
    ]


def _set_aside(cut: Cut) -> Iterable[Row]:
    for topic in cut.aside:
        line = topic.reason.strip().partition("\n")[0]
        shown = line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}.."
        yield (topic.topic, shown), 1.0


def _paused(cut: Cut) -> Iterable[Row]:
    return [
        ((topic.topic,), 1.0)
        for topic in cut.topics
        if any(part.state == "paused" for part in topic.partitions)
    ]


def _of_partitions(name: str) -> "Callable[[Cut], Iterable[Row]]":
    return lambda cut: [
        ((topic.topic, str(part.partition)), part.figures[name])
        for topic, part in cut.partitions
        if name in part.figures
    ]


def _answers(cut: Cut) -> Iterable[Row]:
    return [
        ((group.group, answer), float(group.answers.get(answer, 0)))
        for group in cut.groups
        for answer in get_args(Answer)
    ]


_RULES: Final[Mapping[str, Callable[[Cut], Iterable[Row]]]] = {
    "info": _info,
    "condition": _conditions,
    "observed_timestamp_seconds": lambda cut: _known(cut.observed.as_of),
    "started_timestamp_seconds": lambda cut: _known(
        owner.since if (owner := cut.observed.owner) else None
    ),
    "ended_timestamp_seconds": lambda cut: _known(cut.observed.ended_at),
    "exit_code": lambda cut: _known(cut.observed.exit_code),
    "lease_held": lambda cut: [
        ((owner.part if (owner := cut.observed.owner) else "records",), float(owner is not None))
    ],
    "cluster_reachable": lambda cut: [
        ((one.name,), float(one.is_reachable)) for one in cut.observed.clusters
    ],
    "generation": lambda cut: _known(cut.observed.generation),
    "topic_latency_seconds": _latencies,
    "topic_set_aside": _set_aside,
    "topic_paused": _paused,
    "partition_lag_records": _of_partitions("lag_records"),
    "partition_lag_seconds": _of_partitions("lag_seconds"),
    "group_partitions": _answers,
    "clock_skew_seconds": lambda cut: [
        ((one.name,), one.skew) for one in cut.observed.clusters if one.skew is not None
    ],
    "metrics_limited": lambda cut: [
        ((what,), float(is_cut)) for what, is_cut in cut.limited.items()
    ],
}
"""Figures that an observation has in a form of its own."""


class MetricsPage:
    """The series of the flows, in the format that whoever asks accepts.

    Any number of readers cost as much as one: what was written for a look is kept until the next.

    Args:
        look: Returns the newest observation of each flow.
        limits: How many series a flow may have.
        is_stale: Whether an observation is so old that its flow is silent.
        mm2_names: Whether MirrorMaker 2's names are shown as well.
    """

    def __init__(
        self,
        look: Callable[[], Iterable[Observation]],
        limits: Limits,
        *,
        is_stale: Callable[[Observation], bool] = lambda _observed: False,
        mm2_names: bool = False,
    ) -> None:
        self._look = look
        self._is_stale = is_stale
        self._shown: Sequence[Observation] = ()
        self._key: object = None
        self._written: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._registry = CollectorRegistry()  # not the library's own, which has what it likes
        further = mm2_families if mm2_names else nothing_further
        self._registry.register(FlowCollector(lambda: self._shown, limits, is_stale, further))
        ProcessCollector(registry=self._registry)

    def write(self, accept: str) -> tuple[bytes, str]:
        """Returns the page and its content type, of those that the header *accept* names."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            shown = tuple(self._look())
            key = [(id(observed), self._is_stale(observed)) for observed in shown]
            if key != self._key:
                self._key = key
                self._shown = shown
                self._written = {}
            if content_type not in self._written:
                self._written[content_type] = encode(self._registry)
            return self._written[content_type], content_type
