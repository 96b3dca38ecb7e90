"""A real Prometheus reads the driver's figures; rules and boards find in them what they ask for."""

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from replication.app.http_server import Liveness, served
from replication.demo.brokers import free_port
from replication.figures.histogram import BOUNDS, Histogram
from replication.figures.observation import GroupFigures, Observation
from replication.figures.registry import BOUNDED, BY_NAME, FIGURES, PREFIX, names_at
from replication.metrics.collector import MetricsPage
from replication.metrics.limits import Limits
from replication.model import Flow
from tests.support.documents import anchors, table, text_of
from tests.support.local import REPOSITORY
from tests.support.observed import (
    LABELLED,
    condition,
    group,
    lagging,
    observed,
    paused,
    set_aside,
    topic,
)
from tests.support.prometheus import (
    MONITORING,
    board,
    hasty,
    prometheus_of,
    promtool,
    queries,
    rules,
    scraping,
)
from tests.support.settings import ONE_FLOW, parse_settings
from tests.support.waiting import wait_until

BOARDS = ("grafana-flow", "grafana-failover")
EXPRESSIONS = [
    *((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()),
    *((f"{name}: {title}", expr) for name in BOARDS for title, expr in queries(name)),
]
SECONDS = 30.0


def test_promtool_finds_nothing_wrong_with_the_page_and_the_rules() -> None:
    for mm2_names in (False, True):
        page, _ = MetricsPage(lambda: [observed()], Limits(), mm2_names=mm2_names).write("")
        own = b"\n".join(line for line in page.splitlines() if b"kafka_connect" not in line)
        assert promtool("check", "metrics", standard_input=own + b"\n") == ""
    assert f"{len(rules())} rules found" in promtool(
        "check", "rules", f"{MONITORING}/prometheus-rules.yaml"
    )


def test_every_alert_fires_by_its_cause_and_clears_again() -> None:
    """The causes are series in rules-test.yaml, one test each."""
    cleared = set[str]()
    for test in yaml.safe_load((MONITORING / "rules-test.yaml").read_text())["tests"]:
        found = [str(look["exp_samples"]) for look in test["promql_expr_test"]]
        for fired, later in pairwise(re.findall(r'alertname="(\w+)"', one) for one in found):
            cleared |= set(fired) - set(later)

    assert cleared == {rule["alert"] for rule in rules() if "alert" in rule}
    assert "SUCCESS" in promtool("test", "rules", str(MONITORING / "rules-test.yaml"))


NOT_CAUSED = {"PausedAtRisk"}
"""Alerts that promtool and observations that are made up make fire, and no real mirror.

In `cluster/commands/test_changes` a paused partition comes near the retention.
"""


def test_every_alert_is_caused_by_what_happens_to_a_running_mirror() -> None:
    """But for some, each is in a test that has a real one."""
    causes = "".join(
        (REPOSITORY / "tests" / "ops" / f"test_{name}.py").read_text()
        for name in ("causes", "driver_alerts")
    )
    caused = set(re.findall(r'"(\w+)"', causes))

    assert {rule["alert"] for rule in rules() if "alert" in rule} - caused == NOT_CAUSED
    told = table(REPOSITORY / "conf" / "docs" / "alerts.md", "what happens")
    fires = {word for _, fired, _ in told for word in re.findall(r"\b[A-Z]\w+", fired)}
    assert fires == {rule["alert"] for rule in rules() if "alert" in rule}


@pytest.mark.parametrize("rule", [r for r in rules() if "alert" in r], ids=lambda r: r["alert"])
def test_every_alert_leads_to_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")

    assert anchor in anchors(text_of(REPOSITORY / path))
    assert rule["labels"]["severity"] in {"page", "warning", "info", "ticket"}


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[one[0] for one in EXPRESSIONS])
def test_every_figure_of_a_rule_or_board_is_one_of_the_registry(
    where: str, expression: str
) -> None:
    names = re.findall(rf"{PREFIX}(\w+)", expression)
    known = {figure.name for figure in FIGURES if figure.is_metric}
    known |= {f"{figure.name}_bucket" for figure in FIGURES if figure.kind == "histogram"}

    assert set(names) <= known, where
    assert names or "replication_fresh" in expression
    for counter in (name for name in names if name in BY_NAME and BY_NAME[name].kind == "counter"):
        assert re.search(rf"(rate|increase)\({PREFIX}{counter}", expression), (
            "a sum since the start"
        )


def test_no_alert_waits_for_a_counter_that_appears_with_its_first_event() -> None:
    """Such a series never makes ``increase`` fire, so those of alerts exist from the start."""
    increases = {
        name
        for rule in rules()
        if "alert" in rule
        for name in re.findall(rf"increase\({PREFIX}(\w+)", rule["expr"])
    }
    assert increases
    assert increases <= BOUNDED.keys()


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_whole(name: str) -> None:
    found = board(name)
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in found["panels"])
    taken = Counter(
        (pos["x"] + x, pos["y"] + y)
        for pos in (panel["gridPos"] for panel in found["panels"])
        for x in range(pos["w"])
        for y in range(pos["h"])
    )
    assert max(taken.values()) == 1, "panels overlap"
    assert [v["name"] for v in found["templating"]["list"]][:3] == [
        "datasource",
        "source",
        "target",
    ]
    sources = {str(panel["datasource"]) for panel in found["panels"] if "datasource" in panel}
    assert len(sources) == 1


def test_what_an_alert_or_the_page_goes_by_is_drawn() -> None:
    drawn, alerting = (
        {name for expression in asked for name in re.findall(rf"{PREFIX}(\w+)", expression)}
        for asked in (
            [expression for name in BOARDS for _, expression in queries(name)],
            [rule["expr"] for rule in rules()],
        )
    )
    known = {name for name in names_at("flow") if BY_NAME[name].is_metric}

    assert alerting | known <= drawn | {"ended_timestamp_seconds"}  # its state is drawn


COUNTERS = [name for name in names_at("flow") if BY_NAME[name].kind == "counter"]


@dataclass(slots=True)
class MadeUp:
    """A flow whose observations a test makes up; its counters grow with each look."""

    changes: dict[str, Any] = field(default_factory=dict)
    given_up: float = 0.0
    late: float = 90.0
    letters: float = 1.0
    ended: tuple[Observation, ...] = ()
    looks: int = 0

    def look(self) -> list[Observation]:
        """A flow that has a bit of everything, with what the test has changed."""
        self.looks += 1
        now, grown = time.time(), float(self.looks)
        histogram = Histogram.of([self.looks] * (len(BOUNDS) + 1), 42.5 * grown)
        given_up = {"given_up_timestamp_seconds": {"records-expired": self.given_up}}
        counts = {name: dict.fromkeys(values, grown) for name, values in BOUNDED.items()}
        known = {name: now for name in names_at("flow") if name.endswith("timestamp_seconds")}
        known |= {"unpaused_lag_seconds": self.late, "dead_letters": self.letters}
        seen = observed(
            as_of=now,
            figures={**observed().figures, **known, **dict.fromkeys(COUNTERS, grown)},
            histograms=dict.fromkeys(observed().histograms, histogram),
            labelled={**LABELLED, **counts, **given_up},
            topics=(
                topic("orders", 1000.0 * grown),
                lagging("payments", 90.0),
                set_aside("audit"),
                paused("clicks"),
            ),
            groups=(
                GroupFigures("billing", group("billing", group_blocked=1.0).figures, {"none": 2}),
            ),
            conditions=(condition("set-aside", "audit"),),
        )
        return [replace(seen, **self.changes), *self.ended]


@contextmanager
def served_flow(flow: MadeUp) -> Iterator[int]:
    """The port at which the driver's server shows *flow*."""
    port = free_port()
    metrics = parse_settings({**ONE_FLOW, "metrics.port": str(port)}).metrics
    with served(metrics, (), flow.look, Liveness()):
        yield port


def test_every_expression_returns_data(tmp_path: Path) -> None:
    """Elsewhere boards had empty panels, and alerts that could never fire."""
    selectors = {
        (rule.get("alert", rule.get("record", "")), re.sub(r"\[\w+]", "", selector))
        for rule in rules()
        for selector in re.findall(rf"{PREFIX}\w+(?:\{{[^}}]*}})?", rule["expr"])
    }
    asked = [*sorted(selectors), *((t, e) for name in BOARDS for t, e in queries(name))]
    drained = observed(flow=Flow("B", "A"), state="drained", ended_at=time.time(), exit_code=0)
    flow = MadeUp(ended=(drained,), given_up=time.time())
    with served_flow(flow) as port, scraping(tmp_path, port) as prometheus:
        wait_until(lambda: prometheus.query("job:replication_fresh:ratio_rate3d"), SECONDS)
        wait_until(lambda: prometheus.query(f"rate({PREFIX}checkpoints_total[5m]) > 0"), SECONDS)

        assert [(title, e) for title, e in asked if not prometheus.query(e)] == []


def test_what_the_page_has_for_prometheus_is_taken_as_it_is(tmp_path: Path) -> None:
    """Only the addresses are those of the test; the rules lie beside the configuration."""
    page = text_of(REPOSITORY / "conf" / "docs" / "prometheus.md")
    (block,) = re.findall(r"(?:^ {7}.*\n)+", page, re.MULTILINE)
    shutil.copy(MONITORING / "prometheus-rules.yaml", tmp_path)
    with served_flow(MadeUp()) as port:
        written = re.sub(r"etl-\d:9404", f"127.0.0.1:{port}", dedent(block)).replace("15s", "1s")
        file = tmp_path / "prometheus.yml"
        file.write_text(f"global: {{scrape_interval: 1s}}\n{written}")
        assert "SUCCESS" in promtool("check", "config", str(file))
        with prometheus_of(file) as prometheus:
            wait_until(lambda: prometheus.value('up{job="replication"}') == 1, SECONDS)
            wait_until(lambda: prometheus.query(f"{PREFIX}flow_state == 1"), SECONDS)


def test_alerts_fire_and_clear_in_a_real_prometheus(tmp_path: Path) -> None:
    """The rules with seconds in place of minutes; their texts are rendered from the series."""
    flow = MadeUp()
    hasty_rules = hasty(tmp_path)
    with (
        served_flow(flow) as port,
        scraping(tmp_path, port, rules_file=hasty_rules) as prometheus,
    ):
        first = {"LagHigh", "TopicSetAside", "GroupBlocked", "DeadLetters"}
        wait_until(lambda: first <= prometheus.alerts().keys(), SECONDS)
        aside = prometheus.alerts()["TopicSetAside"]["annotations"]["summary"]
        assert aside == "audit of A->B is set aside: it was created again"

        flow.given_up = time.time()
        wait_until(lambda: "RecordsGivenUp" in prometheus.alerts(), SECONDS)
        flow.changes = {"topics": (topic("orders", 1e6),), "groups": (), "conditions": ()}
        flow.late = flow.letters = 0.0
        grown = {"StateNotWritten", "Restarting", "PausedAtRisk"}  # counters
        calm = {"FreshnessBurnsSlowly"} | grown  # it goes by hours
        wait_until(lambda: not prometheus.alerts().keys() - calm, 3 * SECONDS)
        flow.changes = {"state": "failed", "ended_at": time.time(), "exit_code": 6}
        wait_until(lambda: "FlowFailed" in prometheus.alerts(), SECONDS)
        assert prometheus.alerts()["FlowFailed"]["annotations"]["summary"] == "A->B has failed"
        flow.changes = {"state": "running"}
        wait_until(lambda: "FlowFailed" not in prometheus.alerts(), SECONDS)
