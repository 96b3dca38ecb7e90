"""``status``, ``lag`` and ``events`` by what the owner of a flow has said, and without it."""

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
import yaml

from replication.config.file import load_config
from replication.control.flow_answers import WITHOUT_A_WORD
from replication.figures.observation import EventRow, Observation, PartitionFigures, TopicFigures
from replication.figures.status_store import Holder
from replication.flows.publisher import FlowPublisher
from replication.model import Flow
from replication.state.delta import LocalTable
from replication.state.schemas import SCHEMAS
from tests.support.cli import ok, run
from tests.support.flows import unique_flow
from tests.support.lease_member import MEMBER, lease_member
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.topics import delete_topic
from tests.support.waiting import in_time

pytestmark = pytest.mark.cluster

AT = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
COMMAND_SECONDS = 1.5


@pytest.fixture
def flow() -> Flow:
    """A flow that no other test has."""
    return unique_flow()


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, flow: Flow) -> Path:
    """A file of that flow, whose owner has said how it is."""
    file = write_config(tmp_path, clusters, "orders", flow=flow)
    publisher = FlowPublisher(load_config(str(file)).flows[0])
    publisher.publish(look(flow), {"records": Holder(1, MEMBER, "host/A->B/1")})
    publisher.close()
    return file


def topic(name: str, lag: float, seconds: float | None) -> TopicFigures:
    """A topic of one partition."""
    known = {"lag_records": lag} | ({} if seconds is None else {"lag_seconds": seconds})
    part = PartitionFigures(3, "lagging", {**known, "position": 90.0, "source_log_end": 97.0})
    return TopicFigures(name, f"A.{name}", "lagging", "", known, {}, (part,))


def look(flow: Flow) -> Observation:
    """A look at a running flow."""
    return Observation(
        flow,
        time.time(),  # else its figures would be late
        "running",
        AT.timestamp(),
        generation=3,
        mode="realtime",
        labelled={"source_tasks": {"shared": 2.0}},
        figures={"lag_records": 1_412.0, "lag_seconds": 0.6, "records_per_second": 10_213.0},
        topics=(topic("idle", 0, 0.0), topic("orders", 7, 2.5), topic("unknown", 1_405, None)),
        events=(EventRow(AT.timestamp(), "set-aside", "no rights", "retry", {"topic": "x"}),),
    )


def test_the_last_word_is_shown_and_soon(clusters: Clusters, file: Path, flow: Flow) -> None:
    with lease_member(clusters[1], flow):
        with in_time(COMMAND_SECONDS, "status"):
            shown = ok(run("status", file)).stdout.splitlines()
        (as_json,) = json.loads(ok(run("status", file, "--json")).stdout)["flows"]

    how = "real-time, 2 tasks of the shared source"
    assert shown[0].startswith(f"{flow}: running, generation 3, {how}, heard ")
    assert shown[1] == "  lag 1 412 records, 0.6 s   10 213 records/s"
    assert as_json["last_word"]["figures"]["lag_records"] == 1_412
    group = as_json["lease_group"]  # a cluster that has just started may have no coordinator yet
    assert group["members"] == [MEMBER] or group["unknown"]


def test_lag_has_the_worst_topics_first_and_a_dash_for_what_is_unknown(file: Path) -> None:
    rows = [line.split("│") for line in ok(run("lag", file)).stdout.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    (one,) = json.loads(ok(run("lag", file, "--json", "--top", 1)).stdout)["flows"]
    parts = ok(run("lag", file, "--partitions", "--topic", "orders")).stdout

    assert [(row[1], row[3], row[4]) for row in cells] == [
        ("orders", "7", "2.5"),
        ("idle", "0", "0.0"),
        ("unknown", "1 405", "-"),
    ]
    assert [row["topic"] for row in one["topics"]] == ["orders"]
    assert "orders-3" in parts
    assert "unknown" not in parts


def test_events_are_rows_of_the_table_and_else_what_the_owner_has_told(
    file: Path, flow: Flow, tmp_path: Path
) -> None:
    told = run("events", file)
    row = {"flow": str(flow), "at": AT, "kind": "rejoined", "topic": "x", "text": "again"}
    LocalTable(tmp_path / "state" / "events").append([row], SCHEMAS["events"])
    rows = json.loads(ok(run("events", file, "--json")).stdout)["events"]
    others = ok(run("events", file, "--kind", "set-aside", "--since", "1h")).stdout

    assert "set-aside x (retry): no rights" in ok(told).stdout
    assert "only the last events of each owner are known" in told.stderr
    assert [(one["kind"], one["topic"]) for one in rows] == [("rejoined", "x")]
    assert others == ""
    assert run("events", file, "--since", "soon").exit_code == 2


def test_without_the_topic_it_is_said_what_is_unknown_and_why(
    clusters: Clusters, file: Path, flow: Flow, tmp_path: Path
) -> None:
    held = {"flow": str(flow), "epoch": 1, "host": "h1 7", "since": AT, "renewed": AT}
    LocalTable(tmp_path / "state" / "leases").append(
        [{**held, "released": False}], SCHEMAS["leases"]
    )
    config = load_config(str(file)).flows[0]
    delete_topic(clusters[1], config.status.storage_topic)
    off, away = tmp_path / "off.yaml", tmp_path / "away.yaml"
    settings = yaml.safe_load(file.read_text())
    off.write_text(yaml.safe_dump({**settings, "status.storage.topic": ""}))
    nowhere = {flow.target: {"bootstrap.servers": "127.0.0.1:1"}}
    away.write_text(yaml.safe_dump({**settings, **nowhere}))

    deleted, is_off = (ok(run("status", one)).stdout for one in (file, off))
    unreachable = run("status", away, "--check")
    lag = run("lag", file)

    assert f"silent: {WITHOUT_A_WORD}; last word: h1 7 took it" in deleted
    assert f"topic mm2-status.{flow.source}.internal is not on cluster {flow.target}" in deleted
    assert "status.storage.topic is set to nothing" in is_off
    assert unreachable.exit_code == 3
    assert unreachable.stdout.startswith(f"UNKNOWN: {flow}: unknown: h1 7 took it")
    assert lag.exit_code == 8
    assert "is not on cluster" in lag.stderr
