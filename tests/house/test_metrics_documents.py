"""The pages about metrics and alerts say what the registry and the rules say."""

import re

from replication.figures.registry import FIGURES
from replication.metrics.collector import OF_TOPICS
from tests.support.documents import SPAN, table, text_of
from tests.support.local import REPOSITORY
from tests.support.prometheus import rules

METRICS = REPOSITORY / "conf" / "docs" / "prometheus.md"
PROMETHEUS = REPOSITORY / "conf" / "docs" / "prometheus.md"
ALERTS = REPOSITORY / "conf" / "docs" / "alerts.md"


def test_every_metric_is_documented_as_it_is() -> None:
    rows = [
        (SPAN.findall(name)[0], kind, tuple(SPAN.findall(labels)), meaning)
        for name, kind, labels, meaning in table(METRICS, "name")
    ]

    assert rows == [
        (figure.name, figure.kind, figure.labels, figure.meaning)
        for figure in FIGURES
        if figure.is_metric
    ]


def test_what_is_no_metric_is_named_as_such() -> None:
    sentence = text_of(METRICS).partition("Not among them")[2].partition("/status")[0]

    named = set(SPAN.findall(sentence.replace("\n", " ")))
    assert {figure.name for figure in FIGURES if not figure.is_metric} <= named


def test_every_alert_has_a_section_and_no_other_has_one() -> None:
    sections = re.findall(r"^## (\w+)$", text_of(ALERTS), re.MULTILINE)

    assert sections == [rule["alert"] for rule in rules() if "alert" in rule]


def test_each_of_mirror_makers_metrics_has_a_counterpart() -> None:
    """Those of MirrorSourceConnector and MirrorCheckpointConnector, by their names over JMX."""
    rows = {
        tuple(SPAN.findall(first)): second
        for first, second, _ in table(PROMETHEUS, "MM2 over JMX, or SRM")
    }
    named = {names[0] for names in rows if names}
    known = {figure.name for figure in FIGURES}

    assert {
        "record-count",
        "record-rate",
        "record-age-ms",
        "byte-count",
        "byte-rate",
        "replication-latency-ms",
        "checkpoint-latency-ms",
        "replication-records-lag",
    } <= named
    assert {re.split("_ms", name)[0].replace("_", "-") for name in OF_TOPICS} <= {
        name.removesuffix("-ms") for name in named
    }
    for counterparts in rows.values():
        for name in SPAN.findall(counterparts):
            assert re.sub(r"rate\((\w+)\[5m]\)", r"\1", name) in known
