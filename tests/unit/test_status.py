"""``status``: what of a flow is not replicated now, by the events since a process took it."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replication.cli.main import main
from replication.control.status import troubles_of
from replication.control.written import Process
from replication.model import Flow
from replication.state.delta import LocalTable
from replication.state.locks import hold_jobs
from replication.state.schemas import SCHEMAS

Row = Mapping[str, Any]

START = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
RUNNING = Process("host", START, None)


def event(minute: int, kind: str, topic: str | None = None, part: int | None = None) -> Row:
    at = START + timedelta(minutes=minute)
    return {
        "flow": "A->B", "at": at, "kind": kind, "topic": topic, "partition": part,
        "text": f"{kind} {topic}",
    }  # fmt: skip


def on(
    cluster: str, minute: int, kind: str, topic: str | None = None, part: int | None = None
) -> Row:
    return {**event(minute, kind, topic, part), "cluster": cluster}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([event(1, "restarted")], [], id="nothing of the kind"),
        pytest.param(
            [event(2, "set-aside", "b"), event(1, "set-aside", "a")],
            [("a", None, "set-aside"), ("b", None, "set-aside")],
            id="two topics",
        ),
        pytest.param([event(2, "rejoined", "a"), event(1, "set-aside", "a")], [], id="rejoined"),
        pytest.param(
            [event(1, "set-aside", "a"), event(2, "rejoined", "a"), event(3, "set-aside", "a")],
            [("a", None, "set-aside")],
            id="set aside again",
        ),
        pytest.param(
            [*(event(1, "set-aside", "a", part) for part in (0, 1)), event(2, "rejoined", "a", 1)],
            [("a", 0, "set-aside")],
            id="partitions without a leader",
        ),
        pytest.param(
            [event(1, "set-aside", "a"), event(1, "set-aside", "a", 1), event(2, "rejoined", "a")],
            [("a", 1, "set-aside")],
            id="a topic, but not its partition",
        ),
        pytest.param(
            [event(1, "set-aside", "a"), event(2, "source-topic-deleted", "a")],
            [],
            id="deleted on the source",
        ),
        pytest.param(
            [event(1, "refused", "a", 0), event(1, "refused", "a", 2)],
            [("a", 0, "refused"), ("a", 2, "refused")],
            id="the flow has ended",
        ),
        pytest.param([event(1, "unreachable")], [(None, None, "unreachable")], id="an outage"),
        pytest.param([event(1, "unreachable"), event(2, "reachable")], [], id="after an outage"),
        pytest.param(
            [on("A", 1, "unreachable"), on("B", 2, "unreachable"), on("B", 3, "reachable")],
            [(None, None, "unreachable")],
            id="the other cluster",
        ),
        pytest.param(
            [
                *(on("A", 1, "leaderless", "a", part) for part in (1, 2)),
                on("A", 3, "led", "a", 1),
            ],
            [("a", 2, "leaderless")],
            id="a broker of several",
        ),
        pytest.param([event(1, "waiting"), event(2, "resumed")], [], id="after a wait"),
        pytest.param([event(-1, "set-aside", "a")], [], id="of an earlier process"),
    ],
)  # fmt: skip
def test_what_has_begun_and_not_ended_is_not_replicated(
    events: list[Row], expected: list[tuple[object, ...]]
) -> None:
    found = troubles_of(events, RUNNING)

    assert [(row.topic, row.partition, row.kind) for row in found] == expected


def append(state: Path, table: str, rows: Iterable[Row]) -> None:
    LocalTable(state / table).append(list(rows), SCHEMAS[table])


def test_the_command_names_topic_reason_and_process(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "mirror.yaml"
    file.write_text(
        "clusters: [A, B]\nA.bootstrap.servers: nowhere:1\nB.bootstrap.servers: nowhere:2\n"
        f"A->B.enabled: true\nstate.dir: {state.as_uri()}\n"
    )

    unknown = CliRunner().invoke(main, ["status", str(file)])
    with hold_jobs(state.as_uri(), [Flow("A", "B")], "mirror"):
        never = CliRunner().invoke(main, ["status", str(file)])
    standby = START - timedelta(minutes=5)
    held = {"flow": "A->B", "epoch": 2, "host": "h1 7", "since": standby}
    append(state, "leases", [{**held, "renewed": START, "released": False}])
    before = {"flow": "A->B", "epoch": 1, "host": "h0 3", "since": standby, "released": False}
    append(state, "leases", [{**before, "renewed": standby}])
    append(state, "events", [event(1, "set-aside", "orders"), event(-1, "set-aside", "old")])
    running = CliRunner().invoke(main, ["status", str(file), "--json"])
    end = START + timedelta(hours=1)
    append(state, "leases", [{**held, "renewed": end, "released": True}])
    failed = {"flow": "A->B", "started_at": START, "ended_at": end, "ending": "failed"}
    cause = "cluster B does not answer"
    later = {**failed, "ended_at": end + timedelta(hours=1), "ending": "kept-out", "exit_code": 4}
    rows = [{**failed, "exit_code": 3, "cause": cause}, {**failed, "topic": "orders"}, later]
    append(state, "executions", rows)
    ended = CliRunner().invoke(main, ["status", str(file)])

    assert (unknown.exit_code, unknown.stdout) == (8, "")
    assert "its file system is not mounted, or the folder was moved" in unknown.stderr
    assert never.exit_code == 0
    assert never.stdout.startswith("A->B: unknown: no process is known to have run it   next: ")
    (shown,) = json.loads(running.stdout)["flows"]
    assert (shown["state"], shown["health"], shown["last_word"]) == ("unknown", "unknown", None)
    assert "nowhere:2" in shown["no_word"]
    told = {"flow", "process", "liveness", "last_end", "not_replicated"}
    assert {"flows": [{key: shown[key] for key in told}]} == {
        "flows": [
            {
                "flow": "A->B",
                "process": {"host": "h1 7", "since": START.isoformat(), "released": None},
                "liveness": "unknown",
                "last_end": None,
                "not_replicated": [
                    {
                        "topic": "orders",
                        "partition": None,
                        "event": "set-aside",
                        "since": "2026-01-31T12:01:00+00:00",
                        "reason": "set-aside orders",
                    }
                ],
            }
        ]
    }
    first, heard, last, *_ = ended.stdout.splitlines()
    step = "   next: python -m replication doctor FILE"
    assert first == f"A->B: failed: h1 7 released it at 2026-01-31T13:00:00+00:00{step}"
    assert heard.startswith("  its owner was not heard: cluster B (bootstrap.servers=nowhere:2)")
    assert last == (
        f"  the last end was at 2026-01-31T13:00:00+00:00: failed, exit code 3: {cause}"
    )
    assert "set-aside orders" in ended.stdout


def test_what_repeats_for_each_partition_is_a_row(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "mirror.yaml"
    file.write_text(
        "clusters: [A, B]\nA.bootstrap.servers: nowhere:1\nB.bootstrap.servers: nowhere:2\n"
        f"A->B.enabled: true\nstate.dir: {state.as_uri()}\n"
    )
    rows = [{**event(1, "leaderless", "orders"), "partition": number} for number in range(12)]
    append(state, "events", rows)
    shown = CliRunner().invoke(main, ["status", str(file)]).stdout

    assert "12 partitions" in shown
    assert shown.count("leaderless orders") == 1
