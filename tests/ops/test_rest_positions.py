"""Positions by REST: shown to whoever may read, moved by whoever may write, as by the commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.demo.workload import create_topic
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from replication.state.requests import pending_moves
from tests.support.local import Clusters
from tests.support.mirror_files import FLOW, write_config
from tests.support.numbered import drain, numbered, numbers
from tests.support.requests import channel
from tests.support.serving import Reply, observed, serving_file, submit
from tests.support.topics import send_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]

AT = "/api/v1/flows/A/B"


def test_a_position_is_shown_and_moved(
    spark: SparkSession, clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    (reader, read), (writer, write) = new_token("ann", "read"), new_token("bob", "write")
    tokens, state = tmp_path / "tokens", tmp_path / "state"
    tokens.write_text(f"{reader.line()}\n{writer.line()}\n")
    tokens.chmod(0o600)
    more = {"rest.port": 0, "rest.tokens.file": str(tokens)}
    file = write_config(tmp_path, clusters, topic_name, more)
    config = load_config(str(file)).flows[0]
    create_topic(clusters[0].bootstrap, topic_name, 1)
    send_records(clusters[0], topic_name, numbered(0, 100))
    drain(spark, state, config)

    def ask(token: str, path: str, **body: object) -> Reply:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        if not body:
            return served.ask(f"{AT}/{path}", headers=headers)
        return served.ask(f"{AT}/{path}", "POST", json.dumps(body), headers)

    with serving_file(file, lambda name: FlowSnapshot(name, observed())) as served:
        shown = ask(read, f"positions?topic={topic_name}")
        denied = ask(read, "move", topic=topic_name, to="-10", dry_run=False)
        wrong = [ask(write, "move", topic=topic_name, to=to) for to in ("soon", True, None, 1.5)]
        beyond = ask(write, "move", topic=topic_name, to=101)
        dry = ask(write, "move", topic=topic_name, partition=0, to="-10")
        while_dry = pending_moves(channel(state.as_uri()), FLOW)
        done = ask(write, "move", topic=topic_name, to=90, reason="CHG-117", dry_run=False)
        reset = ask(write, "reset", topics=[topic_name])
        form = {"topic": topic_name, "partition": "0", "to": "80", "reason": "CHG-118"}
        shown_form = submit(served, write, "/flows/A/B/move", **form)
        (while_shown,) = pending_moves(channel(state.as_uri()), FLOW).values()
        sent_form = submit(served, write, "/flows/A/B/move", **form, confirmed="yes")

    (row,) = shown.json["items"]
    assert (row["source_offset"], row["target_offset"], row["lag"]) == (100, 100, 0)
    assert (denied.status, while_dry) == (403, {})
    assert [reply.status for reply in wrong] == [422] * 4
    assert (beyond.status, beyond.json["code"]) == (404, "no-answer")
    assert part(dry)["copied_again"] == part(done)["copied_again"] == [90, 100]
    assert part(dry)["records"] == 10  # the offset map is dense there, so that no Spark is needed
    assert (part(reset)["copied_again"], part(reset)["replaces"]) == ([0, 100], 90)
    assert (dry.status, done.status) == (202, 202)
    assert (while_shown.moving.to, while_shown.request.reason) == (90, "bob by REST: CHG-117")
    assert (shown_form.status, sent_form.status) == (200, 200)
    assert '<td data-label="copied again">80 to 99</td>' in shown_form.text
    assert '<td data-label="records">20</td>' in shown_form.text
    assert "Nothing has been changed yet" in shown_form.text
    (request,) = pending_moves(channel(state.as_uri()), FLOW).values()
    assert request.request.reason == "bob by REST: CHG-118"
    drain(spark, state, config)
    assert numbers(clusters[1], f"A.{topic_name}")[100:] == list(range(80, 100))


def part(reply: Reply) -> dict[str, Any]:
    """What becomes of the only partition."""
    (found,) = reply.json["what"]["partitions"]
    return dict(found)
