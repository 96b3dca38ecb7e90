"""The figures of a flow: the registry, the document of an observation, and the lag in seconds."""

import json
import math
import random
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replication.figures.histogram import BOUNDS, Histogram, RecentDurations
from replication.figures.lag import MOST_SKEW_SECONDS, PartitionLag
from replication.figures.observation import (
    SEVERITIES,
    Answer,
    ClusterFigures,
    Code,
    Condition,
    EventRow,
    FlowState,
    GroupFigures,
    Observation,
    Owner,
    PartitionFigures,
    TopicFigures,
    TopicState,
    document,
    health_of,
    observation,
    seconds_of,
    text_of,
)
from replication.figures.registry import BOUNDED, BY_NAME, FIGURES, PREFIX, Figure, Table, names_at
from replication.model import EventKind, Flow, Job, Mode, Part, Reaction
from replication.state.schemas import SCHEMAS
from tests.support.local import REPOSITORY

INTERVAL = 5.0
"""Seconds between two looks."""

# --- the registry ---------------------------------------------------------------------------


def test_each_name_is_unique_and_one_that_prometheus_takes() -> None:
    assert len(BY_NAME) == len(FIGURES)
    assert [name for name in BY_NAME if not re.fullmatch("[a-z][a-z0-9_]*", name)] == []
    assert re.fullmatch("[a-z_]+_", PREFIX)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_name_ends_with_its_unit(figure: Figure) -> None:
    is_counter = figure.kind == "counter"

    assert f"_{figure.name}".removesuffix("_total").endswith(
        f"_{figure.unit}" if figure.unit else ""
    )
    assert figure.name.endswith("_total") == is_counter
    assert figure.meaning.endswith(".")
    assert "|" not in figure.meaning, "it stands in a table of Markdown"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_label_is_one_that_prometheus_leaves_alone(figure: Figure) -> None:
    assert set(figure.labels).isdisjoint({"job", "instance", "le", "source", "target"})
    assert len(set(figure.labels)) == len(figure.labels)


def test_no_counter_that_an_alert_uses_begins_with_its_first_event() -> None:
    bounded = {
        f.name for f in FIGURES if f.kind == "counter" and f.labels and f.labels != ("topic",)
    }

    assert bounded <= set(BOUNDED)
    assert set(get_args(Table)) == set(SCHEMAS)
    assert set(BOUNDED["events_total"]) == set(get_args(EventKind))


# --- health ---------------------------------------------------------------------------------


def test_health_is_that_of_the_worst_condition() -> None:
    late, lost = (Condition(code, SEVERITIES[code], 1.0, "") for code in ("map-old", "stalled"))

    assert set(SEVERITIES) == set(get_args(Code))
    assert [health_of(some) for some in ((), (late,), (late, lost))] == ["ok", "degraded", "bad"]


# --- histograms -----------------------------------------------------------------------------


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=200), st.floats(0.001, 1))
def test_a_quantile_is_within_a_bucket_of_the_true_one(values: list[float], share: float) -> None:
    buckets = [0] * (len(BOUNDS) + 1)
    for value in values:
        buckets[next((i for i, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))] += 1
    true = min(BOUNDS[-1], sorted(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)])
    at = next(i for i, bound in enumerate(BOUNDS) if true <= bound)

    found = Histogram.of(buckets, sum(values))

    quantile = found.quantile(share)
    assert quantile is not None
    assert (BOUNDS[at - 1] if at else 0.0) <= quantile <= BOUNDS[at]
    assert found.count == len(values)
    assert found.since(found).quantile(share) is None


def test_the_jvm_counts_in_the_same_buckets() -> None:
    java = (REPOSITORY / "replication/jvm/producer/Durations.java").read_text(encoding="utf-8")
    bounds = java.partition("BOUNDS_MICROS = {")[2].partition("}")[0]

    found = [int(bound.strip(" \nL").replace("_", "")) for bound in bounds.split(",")]
    assert tuple(micros / 1e6 for micros in found) == BOUNDS


# --- documents ------------------------------------------------------------------------------

times = st.integers(0, 4 * 10**12).map(lambda ms: ms / 1000)
texts = st.text(max_size=8)
numbers = st.integers(0, 2**53) | st.floats(0, 1e12)
counts = st.integers(0, 10**9)


def figures_at(*names: str) -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(st.sampled_from(names), numbers, max_size=5)


def test_quantiles_are_of_the_last_minute_and_no_longer_than_the_longest() -> None:
    recent, slow, fast = RecentDurations(), [0] * len(BOUNDS) + [0], [0] * len(BOUNDS) + [0]
    slow[15], fast[5] = 100, 100  # of 60 to 300 s, and of 20 to 50 ms
    both = [one + two for one, two in zip(slow, fast, strict=True)]
    recent.add(100.0, Histogram.of(slow, 9000.0, 93.0))
    held_up = recent.look(100.0).quantiles()
    recent.add(159.0, Histogram.of(both, 9003.0, 0.04))
    still = recent.look(159.0).quantiles()
    recent.add(161.0, Histogram.of(both, 9003.0, 0.0))
    over = recent.look(161.0).quantiles()

    assert held_up["p99"] == held_up["max"] == still["p99"] == 93.0
    assert over["p50"] == pytest.approx(0.035)
    assert over["p99"] == over["max"] == 0.04
    assert recent.whole.count == 200
    assert recent.look(300.0).quantiles() == {}


histograms = st.builds(
    Histogram.of,
    st.lists(counts, min_size=len(BOUNDS) + 1, max_size=len(BOUNDS) + 1),
    st.floats(0, 1e9),
)
conditions = st.builds(
    Condition,
    code=st.sampled_from(get_args(Code)),
    severity=st.sampled_from(["degraded", "bad"]),
    since=times,
    text=texts,
    next_step=texts,
    topic=st.none() | texts,
)
partitions = st.builds(
    PartitionFigures,
    partition=counts,
    state=st.sampled_from(get_args(TopicState)),
    figures=figures_at(*names_at("partition")),
)
topics = st.builds(
    TopicFigures,
    topic=texts,
    remote=st.none() | texts,
    state=st.sampled_from(get_args(TopicState)),
    reason=texts,
    figures=figures_at(*names_at("topic")),
    latency=st.dictionaries(st.sampled_from(["0.5", "0.99", "1"]), numbers),
    partitions=st.lists(partitions, max_size=2).map(tuple),
)
groups = st.builds(
    GroupFigures,
    group=texts,
    figures=figures_at(*names_at("group")),
    answers=st.dictionaries(st.sampled_from(get_args(Answer)), counts),
)
events = st.builds(
    EventRow,
    at=times,
    kind=st.sampled_from(get_args(EventKind)),
    text=texts,
    reaction=st.sampled_from(get_args(Reaction)),
    details=st.dictionaries(texts, texts | counts, max_size=3),
)
clusters = st.builds(
    ClusterFigures,
    name=texts,
    is_reachable=st.booleans(),
    since=st.none() | times,
    skew=st.none() | numbers,
)
observations = st.builds(
    Observation,
    flow=st.builds(Flow, texts, texts),
    as_of=times,
    state=st.sampled_from(get_args(FlowState)),
    since=times,
    reason=texts,
    conditions=st.lists(conditions, max_size=3).map(tuple),
    owner=st.none() | st.builds(Owner, texts, counts, times, st.sampled_from(get_args(Part))),
    epoch=st.none() | counts,
    mode=st.none() | st.sampled_from(get_args(Mode)),
    runs=st.none() | st.sampled_from(get_args(Job)),
    generation=st.none() | counts,
    version=texts,
    figures=figures_at(*names_at("flow")),
    histograms=st.dictionaries(
        st.sampled_from(["latency_seconds", "transfer_seconds"]), histograms
    ),
    labelled=st.dictionaries(
        st.sampled_from([*BOUNDED, "partitions"]),
        st.dictionaries(texts, numbers, max_size=3),
        max_size=3,
    ),
    topics=st.lists(topics, max_size=2).map(tuple),
    groups=st.lists(groups, max_size=2).map(tuple),
    events=st.lists(events, max_size=2).map(tuple),
    clusters=st.lists(clusters, max_size=2).map(tuple),
    ended_at=st.none() | times,
    exit_code=st.none() | counts,
    text=texts,
)


@settings(max_examples=50)
@given(observations)
def test_a_document_says_all_that_was_observed(observed: Observation) -> None:
    recent = {name: {"p50": 0.5, "max": 93.0} for name in observed.histograms}
    observed = replace(observed, quantiles=recent)
    text = json.dumps(document(observed), allow_nan=False)

    assert observation(json.loads(text)) == observed
    assert text == json.dumps(json.loads(text), sort_keys=True)


def test_a_figure_that_is_unknown_is_null_in_a_document() -> None:
    known = {"lag_records": 0, "lag_seconds": 0.0}
    found = document(Observation(Flow("A", "B"), 1.5, "running", 0.0, figures=known), is_stale=True)

    figures = found["figures"]
    assert {name: value for name, value in figures.items() if value is not None} == known
    assert figures.keys() >= {"records_total", "latency_seconds", "rpo_seconds"}
    assert (found["as_of"], found["stale"]) == ("1970-01-01T00:00:01.500Z", True)


def test_a_document_of_a_later_version_can_be_read() -> None:
    found = document(Observation(Flow("A", "B"), 1.5, "running", 0.0))
    found["figures"]["moods"] = {"counts": [0] * (len(BOUNDS) + 1), "sum": 0}

    assert observation({**found, "weather": "fine"}).state == "running"


@given(times)
def test_a_time_is_the_same_when_it_is_read(at: float) -> None:
    assert seconds_of(text_of(at)) == at


# --- the lag --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """A log on the source: when and with which timestamp each record came, and its offset."""

    appended: list[float]
    timestamps: list[float]
    offsets: list[int]
    copied: list[float]

    def end(self, at: float) -> int:
        """The offset after the last record, and after its marker if it has one."""
        count = bisect_right(self.appended, at)
        return self.offsets[count] if count < len(self.offsets) else self.offsets[-1] + 1


def simulated(seed: int, *, gaps: bool = False, disorder: float = 0, skew: float = 0) -> Log:
    """1500 s of bursts, slow and idle times; now and then the target stops for up to 2 minutes.

    The first record has waited for an hour if *seed* is a multiple of four.
    """
    chance = random.Random(seed)  # noqa: S311 - a simulation
    now, appended = 0.0, list[float]()
    while now < 1500:
        rate, until = chance.choice([100, 5, 0.2, 0.01]), now + chance.uniform(20, 200)
        while now < min(until, 1500):
            now += chance.expovariate(rate)
            appended.append(now)
    stalls = sorted(
        (at, at + chance.uniform(5, 120)) for at in (chance.uniform(0, 1400) for _ in "12345")
    )
    copied, last = list[float](), 0.0
    for at in appended:
        last = max(at + 0.002, last + 0.0005)
        for begin, end in stalls:
            last = end if begin <= last < end else last
        copied.append(last)
    offset, offsets = 0, list[int]()
    for _ in appended:
        offset += 1 + (chance.choice([0, 0, 1, 30]) if gaps else 0)
        offsets.append(offset)
    stamps = [at + skew - chance.uniform(0, disorder) for at in appended]
    return Log(appended, stamps, offsets, copied)


def looks(log: Log, *, knows_timestamps: bool) -> Iterator[tuple[float, float, float]]:
    """Each look at *log*: the shown lag, the age at the last report, and the time of the look.

    The ends are taken first. A second later the position is as of a report that is at most half a
    second old, and younger than the ends.
    """
    chance = random.Random(len(log.offsets))  # noqa: S311 - a simulation
    lag, at = PartitionLag(), 0.0
    while at < 1490:
        at += INTERVAL
        lag.saw(at, log.end(at))
        now = at + 1.0
        known = max(at + 0.001, now - chance.uniform(0, 0.5))
        done = bisect_right(log.copied, known)
        # the offsets between two records are passed with the later one, or by the idle check
        position = log.offsets[done] if done < len(log.offsets) else log.offsets[-1] + 1
        lag.moved(position)
        newest = max(log.timestamps[:done], default=None) if knows_timestamps else None
        shown = lag.look(now, newest).seconds
        waits = done < len(log.offsets) and log.appended[done] <= known
        # before the first look that helps, only the timestamps tell: they are off by the skew
        is_off = lag.is_unknown and log.timestamps[0] < log.appended[0] - INTERVAL
        if shown is not None and not is_off:
            yield shown, now - log.appended[done] if waits else 0.0, now


KINDS = {
    "in order": {},
    "with gaps and markers": {"gaps": True},
    "up to 3 s old and disordered": {"disorder": 3.0},
    "clocks behind": {"skew": -30.0},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("knows_timestamps", [True, False])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
@example(seed=101558)  # a minute without a record, and the looks around it are thinned
def test_lag_is_never_below_the_age_and_at_most_an_interval_above(
    kind: str, *, knows_timestamps: bool, seed: int
) -> None:
    log = simulated(seed, **KINDS[kind])  # type: ignore[arg-type]

    for shown, true, _ in looks(log, knows_timestamps=knows_timestamps):
        if true > 1.0:
            spacing = INTERVAL * 2 ** max(
                0, math.ceil(math.log2(max(1.0, true / INTERVAL / 4))) - 1
            )
            assert true - 1e-6 <= shown <= true + max(INTERVAL, spacing) + 1e-6


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_healthy_flow_shows_no_lag(seed: int) -> None:
    log = simulated(seed)

    shown = [lag for lag, true, _ in looks(log, knows_timestamps=True) if true <= 0.0]
    assert set(shown) <= {0.0}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), skew=st.floats(0, 60))
def test_a_clock_that_is_ahead_hides_no_more_than_an_interval(seed: int, skew: float) -> None:
    log = simulated(seed, skew=skew)

    for shown, true, _ in looks(log, knows_timestamps=True):
        if true > 1.0:
            assert shown >= true - min(skew, INTERVAL + MOST_SKEW_SECONDS) - 1e-6
