"""`serve` beside a mirror that runs, as a user starts both by one command."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from replication.model import Flow
from replication.serve.tokens import new_token
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.serving import Served
from tests.support.topics import fill
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

START_SECONDS = 90.0
STOP_SECONDS = 60.0
RECORDS = 120


def test_what_runs_is_shown_and_who_stops_it_is_recorded(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    flow = unique_flow()
    made, secret = new_token("bob", "write")
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(made.line(), encoding="utf-8")
    fill(clusters[0], topic_name, 2, RECORDS)
    file = write_config(tmp_path, clusters, topic_name, flow=flow)
    file.write_text(
        f"{file.read_text()}\nrest.port: 0\nrest.tokens.file: {tokens}\n", encoding="utf-8"
    )
    log = tmp_path / "log"
    mirror = start_mirror(file, log, "--serve")
    try:
        served = Served(address(log), {"Authorization": f"Bearer {secret}"})
        wait_until(lambda: found(served, flow)["state"] == "running", START_SECONDS)
        wait_until(lambda: records(served, flow) == RECORDS, START_SECONDS)
        shown = found(served, flow)
        assert (shown["health"], shown["stale"], shown["figures"]["lag_records"]) == (
            "ok",
            False,
            0,
        )
        page = served.ask(f"/flows/{flow.source}/{flow.target}").text
        assert f'data-topic="{topic_name}"' in page
        assert served.ask("/readyz").status == 200
        assert "kafka_replication_flow_state{" in served.ask("/metrics").text
        stop = f"/api/v1/flows/{flow.source}/{flow.target}/stop"
        json_type = {"Content-Type": "application/json"}
        asked = served.ask(stop, "POST", '{"reason": "CHG-117", "dry_run": false}', json_type)
        assert asked.status == 202, asked.text
        wait_until(lambda: mirror.exit_code is not None, STOP_SECONDS)
        assert mirror.exit_code == 0
        shown_events = ok(run("events", file, "--kind", "requested", "--json")).stdout
        (event,) = json.loads(shown_events)["events"]
        assert (event["flow"], event["reaction"]) == (str(flow), "stop")
        assert re.fullmatch(r"stop, requested \S+Z by \S+@\S+: bob by REST: CHG-117", event["text"])
    finally:
        mirror.discard()


def address(log: Path) -> str:
    """The address that `serve` prints."""

    def line() -> str:
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        match = re.search(r"event=serving text=(http://\S+)/$", text, re.MULTILINE)
        return match[1] if match else ""

    wait_until(line, START_SECONDS)
    return line()


def found(served: Served, flow: Flow) -> dict[str, Any]:
    """What REST says of the flow."""
    answer: dict[str, Any] = served.ask(f"/api/v1/flows/{flow.source}/{flow.target}").json
    return answer


def records(served: Served, flow: Flow) -> float | None:
    """How many records of the flow the target has acknowledged."""
    total: float | None = found(served, flow)["figures"]["records_total"]
    return total
