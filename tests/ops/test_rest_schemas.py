"""What schema registries hold, by REST and on a page, also where a registry is in trouble."""

import json
from pathlib import Path

import pytest

from replication.demo.workload import create_topic
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.cli import run
from tests.support.framed import schema
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.said import SaidLines
from tests.support.schema_registry import Registries, keys
from tests.support.serving import Reply, observed, serving_file

pytestmark = pytest.mark.cluster

AT = "/api/v1/flows/A/B/schemas"
PAGE = "/flows/A/B/schemas"


def test_what_the_target_lacks_is_answered_as_by_the_command(
    clusters: Clusters,
    tmp_path: Path,
    topic_name: str,
    registries: Registries,
    said: SaidLines,
) -> None:
    a, b = registries
    create_topic(clusters[0].bootstrap, topic_name, 1)
    a.register(f"{topic_name}-value", schema("Order"))
    a.context.levels[f"{topic_name}-value"] = "FULL"
    token, reader = new_token("ann", "read")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{token.line()}\n", encoding="utf-8")
    tokens.chmod(0o600)
    more = {
        "rest.port": 0,
        "rest.tokens.file": str(tokens),
        **keys(a, b, "preserve", topic_name),
    }
    file = write_config(tmp_path, clusters, topic_name, more)
    answers: list[Reply] = []
    with serving_file(file, lambda flow: FlowSnapshot(flow, observed())) as served:

        def ask(path: str) -> Reply:
            answers.append(served.ask(path, headers={"Authorization": f"Bearer {reader}"}))
            return answers[-1]

        assert served.ask(AT).status == 401
        assert f'href="{PAGE}"' in ask("/flows/A/B").text
        shown = ask(AT)
        command = run("schemas", file, "--flow", "A->B", "--json")
        assert (shown.status, shown.json) == (200, json.loads(command.stdout))
        (missing,) = shown.json["missing"]
        assert (missing["subject"], missing["version"]) == (f"A.{topic_name}-value", 1)
        assert f"A.{topic_name}-value" in ask(PAGE).text

        for fault, text in ((500, "500 planted"), (401, "401 planted"), (302, "leads to")):
            b.fault = fault
            assert (ask(AT).status, ask(PAGE).status) == (503, 503)
            assert text in answers[-2].json["detail"]
            assert text in answers[-1].text
        b.fault, b.garbage = 0, b"<html>"
        assert "an answer that no registry gives" in ask(AT).json["detail"]
        b.garbage, b.user = b"", "mirror:another"
        assert "correct B.schema.registry.basic.auth.user.info" in ask(AT).json["detail"]
        assert ask("/api/v1/flows/B/A/schemas").status == 404
        said_by_doctor = run("doctor", file, "--json").stdout
    shown_texts = [reply.text for reply in answers] + [said_by_doctor, command.stdout]
    assert "secret" not in "".join(shown_texts) + "".join(map(str, said.of("serve_failed")))


def test_a_flow_that_leaves_ids_alone_has_no_page_of_schemas(
    clusters: Clusters, tmp_path: Path, topic_name: str
) -> None:
    file = write_config(tmp_path, clusters, topic_name, {"rest.port": 0})
    with serving_file(file, lambda flow: FlowSnapshot(flow, observed())) as served:
        answer = served.ask(AT)
        assert (answer.status, answer.json["code"]) == (404, "no-schemas")
        assert "set A->B.replication.schemas to preserve or translate" in answer.json["detail"]
        assert PAGE not in served.ask("/flows/A/B").text
    command = run("schemas", file, "--flow", "A->B", "--json")
    said = json.loads(command.stderr)
    assert (command.exit_code, said["code"]) == (8, answer.json["code"])
    assert said["text"] == answer.json["detail"]
