"""A real Prometheus, and its promtool: Debian's package, or what is on PATH."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from replication.demo.brokers import HOST, free_port
from tests.support.local import HOME, REPOSITORY
from tests.support.running_process import RunningProcess
from tests.support.waiting import wait_until

MONITORING = REPOSITORY / "conf" / "monitoring"
RULES = MONITORING / "prometheus-rules.yaml"
START_SECONDS = 30.0
VARIABLES = {"$source": ".*", "$target": ".*", "$topic": ".*", "$__rate_interval": "5m"}
"""What Grafana puts in place of a board's variables."""


def program(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``; the test is skipped where there is none."""
    unpacked = HOME / "prometheus" / "usr" / "bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: run ./spark-submit.sh --setup prometheus, which needs apt-get")
    return found


def promtool(*arguments: str, standard_input: bytes | None = None) -> str:
    """What promtool prints; it must find nothing wrong."""
    answer = subprocess.run(
        [program("promtool"), *arguments], input=standard_input, capture_output=True, check=False
    )
    said = (answer.stdout + answer.stderr).decode()
    assert answer.returncode == 0, said
    return said


def rules() -> list[dict[str, Any]]:
    """The alerts and records of the rules."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board(name: str) -> dict[str, Any]:
    """A board for Grafana."""
    return dict(json.loads((MONITORING / f"{name}.json").read_text()))


def queries(name: str) -> list[tuple[str, str]]:
    """Title of the panel and expression of each query of a board, its variables replaced."""
    found = []
    for panel in board(name)["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            found.append((panel["title"], expression))
    return found


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that runs."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that *expression* gives now, as the API has them."""
        return list(self._get("query", query=expression)["result"])

    def value(self, expression: str) -> float | None:
        """The value of the only series of *expression*; None if there is no such series."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def has_had(self, expression: str, since: float) -> bool:
        """Whether *expression* gave any series since a time."""
        now = time.time()
        found = self._get("query_range", query=expression, start=since, end=now, step="1")
        return bool(found["result"])

    def alerts(self, state: str = "firing") -> dict[str, dict[str, Any]]:
        """The alerts in a state, by name; of several the last."""
        found = self._get("alerts")["alerts"]
        return {one["labels"]["alertname"]: one for one in found if one["state"] == state}

    def fires(self, alert: str, **labels: str) -> bool:
        """Whether *alert* fires for a series with these *labels*."""
        return any(
            one["state"] == "firing"
            and {"alertname": alert, **labels}.items() <= one["labels"].items()
            for one in self._get("alerts")["alerts"]
        )

    def _get(self, path: str, **parameters: object) -> dict[str, Any]:
        query = f"?{urlencode(parameters)}" if parameters else ""
        with urlopen(f"http://{HOST}:{self.port}/api/v1/{path}{query}", timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return dict(found["data"])


@contextmanager
def scraping(
    folder: Path, *ports: int, rules_file: Path = RULES, seconds: int = 1
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes 127.0.0.1 at *ports* every so many *seconds*, and has the rules.

    Args:
        folder: For its configuration and data.
        ports: Of drivers.
        rules_file: What it evaluates as often.
        seconds: From one scrape to the next.
    """
    each = dict.fromkeys(
        ("scrape_interval", "scrape_timeout", "evaluation_interval"), f"{seconds}s"
    )
    settings = {
        "global": each,
        "rule_files": [str(rules_file)],
        "scrape_configs": [
            {
                "job_name": "replication",
                "static_configs": [{"targets": [f"{HOST}:{port}" for port in ports]}],
            }
        ],
    }
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings))
    with prometheus_of(config) as server:
        yield server


@contextmanager
def prometheus_of(config: Path) -> Iterator[Prometheus]:
    """A Prometheus with the configuration *config*; its data lie beside it."""
    port, folder = free_port(), config.parent
    command = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'prometheus-data'}",
        f"--web.listen-address={HOST}:{port}",
    ]
    with RunningProcess("prometheus", command, folder / "prometheus.log") as process:
        server = Prometheus(port)
        wait_until(process.while_running(lambda: _is_ready(port)), START_SECONDS)
        yield server


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://{HOST}:{port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


SOONER = {
    "FlowSilent": ("> 60", "> 10"),
    "LagHigh": ("> 60", "> 10"),
    "LagVeryHigh": ("> 300", "> 20"),
    "LagGrowing": ("> 30", "> 5"),
    "HeartbeatsMissing": ("> 60", "> 10"),
    "MapOld": ("> 600", "> 10"),
    "GroupPositionOld": ("> 300", "> 5"),
    "DrainOverdue": ("> 86400", "> 5"),
    "Restarting": ("> 3", "> 0"),
    "RecordsGivenUp": ("offset 10m", "offset 15s"),
    "FreshnessBurnsFast": ("0.8 * 12", "0"),  # any history
    "FreshnessBurnsSlowly": ("0.8 * 12", "0"),
}
"""Limits of alerts that only time reaches, and those of a test. promtool tests the real ones."""


def hasty(folder: Path) -> Path:
    """The rules with a second in place of how long something must last, and short rates."""
    text = re.sub(r"for: \w+", "for: 1s", RULES.read_text())
    found = yaml.safe_load(re.sub(r"\[(5|10|15)m]", "[15s]", text))
    for rule in (rule for group in found["groups"] for rule in group["rules"]):
        limit, sooner = SOONER.get(rule.get("alert", ""), ("", ""))
        assert limit in rule["expr"]
        rule["expr"] = rule["expr"].replace(limit, sooner)
    file = folder / "hasty-rules.yaml"
    file.write_text(yaml.safe_dump(found))
    return file
