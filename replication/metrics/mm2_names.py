"""The figures under the names of Strimzi's exporter for MirrorMaker 2, for boards that exist.

MirrorMaker 2 has a series for each partition; here is one for each topic, with an empty partition,
so sums and maxima of a board are right. What it measures otherwise is in conf/docs/prometheus.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from replication.figures.observation import TopicFigures
from replication.metrics.limits import Cut

SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector_"
MILLISECONDS: Final = 1000.0

_LABELS: Final = ("source", "target", "topic", "partition")
_GROUP_LABELS: Final = ("source", "target", "group", "topic", "partition")


def _figure(name: str, factor: float = 1.0) -> Callable[[TopicFigures], float | None]:
    """Returns what reads the figure *name* of a topic, times *factor*."""

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
    yield _checkpoints(cuts)


def _checkpoints(cuts: Sequence[Cut]) -> Metric:
    name = "checkpoint_latency_ms_avg"
    meaning = "the mean of checkpoint_seconds, of all groups together"
    family = GaugeMetricFamily(CHECKPOINT + name, _help(name, meaning), labels=_GROUP_LABELS)
    for cut in cuts:
        flow, found = cut.observed.flow, cut.observed.histograms.get("checkpoint_seconds")
        if found is not None and found.count:
            mean = found.sum / found.count * MILLISECONDS
            family.add_metric((flow.source, flow.target, "", "", ""), mean)
    return family


def _help(name: str, meaning: str) -> str:
    return f"MirrorMaker 2's {name.replace('_', '-')}, here: {meaning}."
