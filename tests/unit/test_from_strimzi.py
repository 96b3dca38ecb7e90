"""The page that leads from Strimzi's dashboard names only what exists."""

import json
import re
from collections.abc import Iterator

import pytest

from replication.figures.registry import BY_NAME, PREFIX
from replication.metrics.collector import CHECKPOINT, OF_TOPICS, SOURCE
from tests.support.local import REPOSITORY

DOCUMENTS = REPOSITORY / "conf" / "docs"
MONITORING = REPOSITORY / "conf" / "monitoring"
PAGE = (DOCUMENTS / "prometheus.md").read_text()
PANELS = (
    *("Number of Connectors", "Number of Tasks", "Total record rate", "Total byte rate"),
    *("Incoming bytes", "Outgoing bytes", "CPU Usage", "JVM Memory", "Time spent in GC"),
    "Source Connector - Connect Outstanding Messages Queue",
    "Source Connector - Producer Available Buffer",
    "Source Connector - Average Offset Commit Time",
    *("Record Age", "Replication Latency", "Offset Synchronization Latency"),
    *("Consumer Lag (chart)", "Consumer Lag (table)"),
)
"""Of Strimzi's board, in its order."""


def rows() -> Iterator[list[str]]:
    """The cells of each panel."""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].strip("| ") in PANELS:
            yield [cell.strip("| ") for cell in cells]


def figures(query: str) -> set[str]:
    """The figures that *query* asks for, without the endings of a histogram."""
    named = re.findall(rf"{PREFIX}(\w+)", query)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}


def test_each_panel_has_a_row() -> None:
    assert sorted(cells[0] for cells in rows()) == sorted(PANELS)


@pytest.mark.parametrize("cells", list(rows()), ids=lambda cells: str(cells[0]))
def test_a_panel_leads_to_figures_and_to_a_panel_of_ours(cells: list[str]) -> None:
    _, _, query, place = cells
    board, _, panel = place.partition(": ")
    found = json.loads((MONITORING / f"grafana-{board}.json").read_text())["panels"]
    own = {one["title"]: [target["expr"] for target in one.get("targets", [])] for one in found}

    asked = figures(query)
    assert asked
    assert all(BY_NAME[name].is_metric for name in asked)
    assert asked & {name for expr in own[panel] for name in figures(expr)} or panel == (
        "Worst partitions"  # by seconds there
    )


def test_every_series_and_label_of_the_page_exists() -> None:
    assert figures(PAGE) <= BY_NAME.keys()
    for name, label in re.findall(rf"{PREFIX}(\w+)\{{(\w+)=", PAGE):
        assert label in {*BY_NAME[name].labels, "source", "target"}


def test_the_names_of_mirror_maker_2_are_those_of_the_driver() -> None:
    kept = PAGE.partition("## Strimzi's own board, kept")[2]
    names = set(re.findall(r"`((?:record|byte|replication)_\w+)`", kept))

    assert names == OF_TOPICS.keys()
    assert f"`{SOURCE}`" in kept
    assert f"`{CHECKPOINT}checkpoint_latency_ms_avg`" in kept


def test_the_alerts_of_the_page_exist() -> None:
    rules = (MONITORING / "prometheus-rules.yaml").read_text()
    section = PAGE.partition("## The alert")[2].partition("\n## ")[0]
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", section))

    assert {"DriverDown", "FlowSilent"} <= named
    assert all(f"alert: {name}\n" in rules for name in named)
