"""Prometheus finds every figure of the registry, bounded, and nothing of what is unknown."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from replication.figures.observation import ENDED, Observation, PartitionFigures, document
from replication.figures.registry import BOUNDED, FIGURES, PREFIX, Figure, names_at
from replication.metrics.collector import LAST_WORDS, OF_TOPICS, SOURCE, FlowCollector, MetricsPage
from replication.metrics.limits import OTHERS, Cutter, Limits
from replication.model import Flow
from tests.support.observed import (
    NOW,
    condition,
    group,
    lagging,
    observed,
    paused,
    set_aside,
    topic,
)

ENDED_FLOW = observed(state="failed", ended_at=NOW, exit_code=6)
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def families(*looked: Observation, limits: Limits | None = None) -> dict[str, Metric]:
    """What is collected of observations, by the name of the figure."""
    found = FlowCollector(lambda: looked, limits or Limits()).collect()
    return {family.name.removeprefix(PREFIX): family for family in found}


def values(name: str, *looked: Observation, limits: Limits | None = None) -> dict[str, float]:
    """The value of each series of a figure, by its labels beside source and target."""
    family = families(*looked, limits=limits)[name.removesuffix("_total")]
    return {
        ",".join(v for k, v in sample.labels.items() if k not in ("source", "target")): sample.value
        for sample in family.samples
    }


def series(page: bytes) -> Series:
    """All series of a page."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_each_figure_is_exported_or_named_as_not_exported(figure: Figure) -> None:
    """Rates, positions and the like are not: Prometheus computes them."""
    has_ended = figure.name in {"ended_timestamp_seconds", "exit_code"}
    found = families(
        ENDED_FLOW if has_ended else observed(topics=(*observed().topics, paused("clicks")))
    )
    if not figure.is_metric:
        assert figure.name not in found
        return
    family = found[figure.name.removesuffix("_total")]

    assert family.documentation == figure.meaning
    assert family.type == ("gauge" if figure.kind == "info" else figure.kind)
    assert family.samples, "every figure of the observation is known"
    labels = {"source", "target", *figure.labels}
    assert {frozenset(sample.labels) - {"le"} for sample in family.samples} == {frozenset(labels)}


def test_what_an_operator_has_paused_is_told_apart_from_what_lags() -> None:
    one = observed(topics=(topic("orders"), lagging("payments", 90.0), paused("clicks", 900.0)))

    assert values("topic_paused", one) == {"clicks": 1.0}
    assert values("partitions", one) == {
        "copying": 2, "paused": 1, "lagging": 1, "stalled": 0, "set-aside": 0, "leaderless": 0,
        "catching-up": 0, "deleted": 0,
    }  # fmt: skip
    assert values("lag_seconds", one)["clicks"] == 900.0


def test_nothing_else_is_exported_but_the_process() -> None:
    page, _ = MetricsPage(lambda: [observed()], Limits()).write("")
    names = {name for name, _ in series(page)}
    own = {name for name in names if name.startswith(PREFIX)}
    assert {name.partition("_")[0] for name in names - own} == {"process"}
    assert not [name for name in names if name.endswith("_created")]


def test_prometheus_and_json_have_the_same_numbers() -> None:
    """`status --json`, REST and the driver's `/status` are this document."""
    numbers = {name: float(number) for number, name in enumerate(names_at("flow"), 2)}
    looked = observed(figures=numbers)
    told, compared = document(looked), 0
    for figure in (one for one in FIGURES if one.is_metric and one.kind != "histogram"):
        if not figure.labels and figure.name in numbers:
            assert values(figure.name, looked) == {"": told["figures"][figure.name]}
            compared += 1
        if figure.labels == ("topic",):
            known = {one["topic"]: one["figures"].get(figure.name) for one in told["topics"]}
            expected = {name: value for name, value in known.items() if value is not None}
            if expected:
                assert values(figure.name, looked) == expected
                compared += 1
    assert compared > 15


def test_what_is_unknown_has_no_series() -> None:
    bare = observed(
        figures={}, histograms={}, labelled={}, topics=(), groups=(), clusters=(), owner=None,
        generation=None, mode=None,
    )  # fmt: skip
    with_series = {name for name, family in families(bare).items() if family.samples}
    assert with_series == {
        "info",
        "flow_state",
        "condition",
        "observed_timestamp_seconds",
        "lease_held",
        "partitions",
        "metrics_limited",
        *(name.removesuffix("_total") for name in BOUNDED),
    }


@pytest.mark.parametrize("name", BOUNDED)
def test_a_counter_exists_with_0_from_the_start(name: str) -> None:
    """One that appears with its first event never makes ``increase`` fire."""
    assert values(name, observed(labelled={})) == dict.fromkeys(BOUNDED[name], 0.0)


def test_a_flow_has_one_state_and_its_conditions() -> None:
    one = observed(conditions=(condition("set-aside", "audit"),))
    states = values("flow_state", one)
    assert [state for state, value in states.items() if value] == ["running"]
    assert {"silent", "failed", "waiting"} <= states.keys()
    assert [code for code, value in values("condition", one).items() if value] == ["set-aside"]


@pytest.mark.parametrize("state", sorted(ENDED))
def test_of_a_flow_that_has_ended_only_its_last_words_are_left(state: str) -> None:
    found = families(observed(state=state, ended_at=NOW, exit_code=5))
    assert {name for name, family in found.items() if family.samples} == LAST_WORDS


def test_nobody_says_running_of_a_flow_that_is_silent() -> None:
    collector = FlowCollector(lambda: [observed()], Limits(), lambda _observed: True)
    found = {family.name.removeprefix(PREFIX): family for family in collector.collect()}
    states = {sample.labels["state"]: sample.value for sample in found["flow_state"].samples}
    assert [state for state, value in states.items() if value] == ["silent"]
    assert {name for name, family in found.items() if family.samples} <= LAST_WORDS


def test_flows_of_a_process_share_their_families() -> None:
    both = [observed(), observed(flow=Flow("B", "A"))]
    page, _ = MetricsPage(lambda: both, Limits()).write("")
    heads = [line for line in page.decode().splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert len([key for key in series(page) if key[0] == f"{PREFIX}info"]) == 2


def test_the_most_urgent_topics_keep_their_series_and_sums_stay_right() -> None:
    quiet = [topic(f"t{n:03}", records=float(n)) for n in range(50)]
    one = observed(topics=(*quiet, lagging("late", 300.0), set_aside("audit")))
    found = values("records_total", one, limits=Limits(topics=10))

    assert len(found) == 11
    assert {"late", "audit", "t049", OTHERS} <= found.keys()
    assert sum(found.values()) == sum(one.figures["records_total"] for one in one.topics)
    assert values("lag_seconds", one, limits=Limits(topics=10))["late"] == 300.0
    assert values("metrics_limited", one, limits=Limits(topics=10))["topics"] == 1
    assert values("metrics_limited", one)["topics"] == 0


def test_5000_topics_and_groups_stay_under_the_limit() -> None:
    """At most 11 500 series for a flow, however many topics and groups it has."""
    parts = tuple(
        PartitionFigures(n, "lagging", {"lag_seconds": 20.0, "lag_records": 1.0}) for n in range(3)
    )
    many = [topic(f"t{n:04}", partitions=parts) for n in range(5000)]
    one = observed(topics=tuple(many), groups=tuple(group(f"g{n}") for n in range(5000)))
    page, _ = MetricsPage(lambda: [one], Limits()).write("")
    found = series(page)

    assert len(found) < 11_500
    assert len(values("partition_lag_seconds", one)) == 100
    assert values("metrics_limited", one) == {"topics": 1.0, "groups": 1.0, "partitions": 1.0}
    healthy = observed(topics=tuple(topic(f"t{n}") for n in range(200)),
                       groups=tuple(group(f"g{n}") for n in range(50)))  # fmt: skip
    assert len(series(MetricsPage(lambda: [healthy], Limits()).write("")[0])) < 2_500


def test_the_one_of_5000_topics_that_lags_has_series_of_its_own() -> None:
    """It has no records, and comes last by its name."""
    idle = [topic(f"a{n:04}", records=100.0) for n in range(4999)]
    one = observed(topics=(*idle, lagging("z-late", 90.0)))
    lags = values("lag_seconds", one)

    assert lags["z-late"] == max(lags.values()) == 90.0
    assert values("partition_lag_seconds", one) == {"z-late,0": 90.0}
    assert values("partitions", one)["lagging"] == 1


def test_partitions_have_series_as_the_key_says() -> None:
    one = observed()
    assert values("partition_lag_seconds", one) == {"payments,0": 90.0}
    assert values("partition_lag_seconds", one, limits=Limits(partitions="off")) == {}
    every = values("partition_lag_seconds", one, limits=Limits(partitions="all"))
    assert every == {"orders,0": 0.0, "payments,0": 90.0}


def _looks(counts: list[list[int]]) -> Iterable[Observation]:
    totals = [0] * len(counts[0])
    for step in counts:
        totals = [total + new for total, new in zip(totals, step, strict=True)]
        yield observed(topics=tuple(topic(f"t{n}", float(total)) for n, total in enumerate(totals)))


@given(st.lists(st.lists(st.integers(0, 1000), min_size=6, max_size=6), min_size=1, max_size=8))
def test_the_counter_of_the_others_never_falls(counts: list[list[int]]) -> None:
    """For Prometheus a counter that falls has begun again at 0: a peak that never was."""
    cutter, before = Cutter(Limits(topics=2)), 0.0
    for one in _looks(counts):
        cut = cutter.cut(one)
        others = next(t for t in cut.topics if t.topic == OTHERS).figures["records_total"]
        assert others >= before
        assert others <= sum(t.figures["records_total"] for t in one.topics)
        before = others


def test_a_page_is_written_once_for_each_look() -> None:
    looked = [observed()]
    page = MetricsPage(lambda: looked, Limits())
    first, kind = page.write("")
    assert page.write("")[0] is first
    assert kind.startswith("text/plain")
    assert page.write("application/openmetrics-text; version=1.0.0")[0].endswith(b"# EOF\n")
    looked[0] = replace(looked[0], as_of=NOW + 5)
    assert page.write("")[0] != first


def test_mirror_makers_names_are_those_of_remote_topics() -> None:
    page, _ = MetricsPage(lambda: [observed()], Limits(), mm2_names=True).write("")
    found = series(page)
    labels = tuple({"source": "A", "target": "B", "topic": "A.orders", "partition": ""}.items())
    own = {name: value for (name, at), value in found.items() if dict(at) == dict(labels)}
    assert own == {
        f"{SOURCE}{name}": value
        for name in OF_TOPICS
        if (value := OF_TOPICS[name][1](topic("orders"))) is not None
    }
    assert len(own) == len(OF_TOPICS)
    assert b"mirrorsourceconnector" not in MetricsPage(lambda: [observed()], Limits()).write("")[0]


def test_a_silent_flow_has_no_figures_under_mirror_makers_names_either() -> None:
    """They would say what was, as if it were now."""
    page = MetricsPage(
        lambda: [observed()], Limits(), is_stale=lambda _observed: True, mm2_names=True
    )
    names = {name for name, _ in series(page.write("")[0])}
    assert f"{PREFIX}flow_state" in names
    assert not any(name.startswith(SOURCE) for name in names)


def test_names_of_topics_and_groups_are_escaped() -> None:
    odd = 'g/"quoted" \\ ünï\nline'
    one = observed(groups=(group(odd),), topics=(topic("t" * 249),))
    page, _ = MetricsPage(lambda: [one], Limits()).write("")
    groups = {dict(at)["group"] for name, at in series(page) if name.startswith(f"{PREFIX}group_")}
    assert groups == {odd}
