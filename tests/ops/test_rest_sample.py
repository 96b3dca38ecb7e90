"""A sample of records by REST and on a page: for the role write only, as it has their content."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from replication.demo.workload import ProducedRecord, create_topic
from replication.serve.changes import SECONDS
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.said import SaidLines
from tests.support.serving import Served, observed, serving_file
from tests.support.topics import now_ms, send_records

pytestmark = pytest.mark.cluster

SAMPLE = "/api/v1/flows/A/B/sample"
JSON = {"Content-Type": "application/json"}
EMAIL = "ann@example.org"


@pytest.fixture
def guarded(
    tmp_path: Path, clusters: Clusters, topic_name: str
) -> Iterator[tuple[Served, dict[str, str], dict[str, str]]]:
    """A server with a topic of two records, and the headers of both roles."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    records = (
        ProducedRecord(partition=0, key=b"k", value=value, timestamp_ms=now_ms())
        for value in (f'{{"email":"{EMAIL}"}}'.encode(), None)
    )
    send_records(clusters[0], topic_name, records)
    (reader, read), (writer, write) = new_token("ann", "read"), new_token("bob", "write")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{reader.line()}\n{writer.line()}\n", encoding="utf-8")
    tokens.chmod(0o600)
    more = {"rest.port": 0, "rest.tokens.file": str(tokens)}
    file = write_config(tmp_path, clusters, topic_name, more)
    with serving_file(file, lambda flow: FlowSnapshot(flow, observed())) as served:
        roles = [{**JSON, "Authorization": f"Bearer {token}"} for token in (read, write)]
        patient = replace(served, patience=2 * SECONDS)  # a sample starts Spark
        yield patient, roles[0], roles[1]


def test_a_sample_is_for_the_role_write_and_nothing_of_it_is_logged(
    guarded: tuple[Served, dict[str, str], dict[str, str]],
    topic_name: str,
    said: SaidLines,
    caplog: pytest.LogCaptureFixture,
) -> None:
    served, read, write = guarded
    mask = "cast(regexp_replace(cast(value AS string), '[a-z]+@', '***@') AS binary)"
    query = json.dumps({"topic": topic_name, "filter": "value IS NOT NULL", "value": mask})

    refused = served.ask(SAMPLE, "POST", query, read)
    nobody = served.ask(SAMPLE, "POST", query, JSON)
    broken = served.ask(SAMPLE, "POST", json.dumps({"topic": topic_name, "records": 0}), write)
    shown = served.ask(SAMPLE, "POST", query, write)
    wrong = served.ask(
        SAMPLE, "POST", json.dumps({"topic": topic_name, "filter": "rand() < 1"}), write
    )

    assert (refused.status, refused.json["code"]) == (403, "read-only")
    assert (nobody.status, broken.status) == (401, 422)
    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store")
    (topic,) = shown.json["topics"]
    changed, dropped = topic["records"]
    assert changed["before"]["value"] == f'{{"email":"{EMAIL}"}}'
    assert changed["after"]["value"] == '{"email":"***@example.org"}'
    assert (dropped["outcome"], dropped["after"]) == ("dropped", None)
    assert (wrong.status, wrong.json["code"]) == (422, "configuration")
    assert "--filter: calls rand" in wrong.json["detail"]
    asked = said.of("requested")
    assert [line.fields["by"] for line in asked] == ["bob", "bob"]
    assert not any(EMAIL in str(line) or "regexp" in str(line) for line in asked)
    assert EMAIL not in caplog.text


def test_the_page_shows_a_sample_to_whoever_may_write(
    guarded: tuple[Served, dict[str, str], dict[str, str]], topic_name: str
) -> None:
    served, read, write = guarded
    page = "/flows/A/B/topics/orders-00001"
    form = "show what transforms make of them"

    assert form not in served.ask(page, headers={"Authorization": read["Authorization"]}).text
    own = served.ask(page, headers={"Authorization": write["Authorization"]}).text
    assert form in own
    token = own.partition('name="form_token" value="')[2].partition('"')[0]
    fields = {"form_token": token, "topic": topic_name, "value": "cast('<b>' AS binary)"}
    headers = {
        "Authorization": write["Authorization"],
        "Content-Type": "application/x-www-form-urlencoded",
    }
    shown = served.ask("/flows/A/B/sample", "POST", urlencode(fields), headers)

    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store")
    assert EMAIL in shown.text
    assert "&lt;b&gt;" in shown.text
    assert "<b>" not in shown.text
