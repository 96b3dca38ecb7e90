"""`serve` beside a mirror that runs, as a user starts both by one command."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from replication.demo.topic_log import TopicLog
from replication.demo.workload import ProducedRecord
from replication.model import Flow
from replication.serve.tokens import new_token
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.serving import Served
from tests.support.stored import stored
from tests.support.topics import fill, send_records
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


POISON = b"%zz SaslAuthenticationException No space left on device KAFKA_DATA_LOSS heliotrope"
PAGES = ("/", "{page}", "{page}/topics/{topic}", "{page}/groups", "/events", "/clusters",
         "/configuration", "/api", "/metrics")  # fmt: skip
ASKED = {"translate": "?topic={topic}&partition=0&offset=0", "history": "?figure=lag_records"}
ISOLATION: Final = "read_uncommitted"


def test_a_record_on_which_a_transform_throws_is_in_no_answer_page_word_or_table(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    flow, other = unique_flow(), f"{topic_name}-other"
    fill(clusters[0], topic_name, 1, RECORDS)
    send_records(clusters[0], topic_name, [ProducedRecord(partition=0, key=b"k", value=POISON)])
    fill(clusters[0], other, 1, RECORDS)
    more = {
        f"{flow}.replication.transforms": "decode",
        f"{flow}.replication.transforms.decode.topics": ".*",
        f"{flow}.replication.transforms.decode.filter": (
            "url_decode(cast(value as string)) is not null"
        ),
        "rest.port": 0,
        "status.publish.interval.seconds": 1,
    }
    file, log = write_config(tmp_path, clusters, f"{topic_name}.*", more, flow), tmp_path / "log"
    page = f"/flows/{flow.source}/{flow.target}"
    mirror = start_mirror(file, log, "--serve")
    try:
        served = Served(address(log))
        about = f"/api/v1{page}/topics/{topic_name}"
        place = f"CANNOT_DECODE_URL for {topic_name}-0 offset {RECORDS}"
        wait_until(lambda: place in served.ask(about).text, START_SECONDS)
        copy = f"/api/v1{page}/topics/{other}"
        wait_until(
            lambda: served.ask(copy).json.get("figures", {}).get("records_total") == RECORDS,
            START_SECONDS,
        )
        given = {"source": flow.source, "target": flow.target, "topic": topic_name, "group": "x"}
        api = [
            path.format(**given) + ASKED.get(path.rpartition("/")[2], "").format(topic=other)
            for path, verbs in served.ask("/openapi.json").json["paths"].items()
            if "get" in verbs
        ]
        pages = [path.format(page=page, topic=topic_name) for path in PAGES]
        answers = {path: served.ask(path) for path in (*api, *pages)}
    finally:
        mirror.discard()
    spoken = TopicLog(clusters[1].bootstrap, f"mm2-status.{flow.source}.internal", ISOLATION)
    words = [one for number in spoken.partitions() for one in spoken.records(number)]
    folders = [each.parent.name for each in (tmp_path / "state").glob("*/_delta_log")]
    tables = {name: stored(tmp_path / "state", name, order="1") for name in folders}
    none = {f"/api/v1{page}/groups/x": 404, f"/api/v1{page}/schemas": 404}
    assert {path: one.status for path, one in answers.items() if one.status != 200} == none
    everything = {**answers, "status topic": words, "log": log.read_text("utf-8"), **tables}
    assert [where for where, said in everything.items() if "heliotrope" in str(said)] == []
    told = {where for where, said in everything.items() if "CANNOT_DECODE_URL" in str(said)}
    assert told >= {
        f"{page}/topics/{topic_name}",
        "status topic",
        "log",
        "events",
        "executions",
    }


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
