"""Changes of a running flow by REST and on its page, as the commands make them.

The objects are real ones of a local state directory; the clusters of the file do not answer.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from replication.control.overrides import new_change
from replication.model import Flow
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from replication.state.change_files import Applied, ChangeFiles
from replication.state.files import LocalFiles
from replication.state.requests import (
    OwnerRequests,
    RequestChannel,
    RetryRequest,
)
from tests.support.said import SaidLines
from tests.support.serving import EVIL, FORM, Reply, Served, bearer, observed, serving, submit

CHANGES = "/api/v1/flows/A/B/changes"
JSON = {"Content-Type": "application/json"}
FLOW = Flow("A", "B")
LISTS = ["A->B.topics: orders", "A.default.api.timeout.ms: 2000", "B.default.api.timeout.ms: 2000"]
EFFECT = ("topics_come", "topics_go", "pauses", "resumes", "groups_come", "groups_go")


@dataclass(frozen=True)
class FlowOverrides:
    """A server, what its state directory has, and the tokens of both roles."""

    served: Served
    changes: ChangeFiles
    read: str
    write: str

    def get(self, path: str = CHANGES, token: str = "") -> Reply:
        return self.served.ask(path, headers=bearer(token or self.read))

    def post(self, path: str = CHANGES, token: str = "", /, **body: object) -> Reply:
        headers = {**JSON, **bearer(token or self.write)}
        return self.served.ask(path, "POST", json.dumps(body), headers)

    def made(self, **body: object) -> dict[str, Any]:
        """Makes a change."""
        reply = self.post(**body, dry_run=False)
        assert reply.status == 202, reply.text
        return dict(reply.json["what"])

    def submit(self, path: str, **fields: str) -> Reply:
        """Sends a form of the flow's page."""
        return submit(self.served, self.write, path, **fields)

    def history(self) -> list[dict[str, Any]]:
        return list(self.get().json["items"])


@pytest.fixture
def steered(tmp_path: Path) -> Iterator[FlowOverrides]:
    (reader, read), (writer, write) = new_token("ann", "read"), new_token("bob", "write")
    tokens, state = tmp_path / "tokens", tmp_path / "state"
    tokens.touch(0o600)
    tokens.write_text(f"{reader.line()}\n{writer.line()}\n", encoding="utf-8")
    (state / "_locks").mkdir(parents=True)  # as of a job that began there
    settings = [*LISTS, f"rest.tokens.file: {tokens}"]
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed()), settings) as served:
        yield FlowOverrides(served, ChangeFiles(LocalFiles(), state.as_uri(), FLOW), read, write)


def test_a_change_names_its_token_and_is_undone_by_its_number(
    steered: FlowOverrides, said: SaidLines
) -> None:
    shown = steered.post(what="limit", items=["bytes=5MB"])
    while_shown = steered.changes.read().changes
    steered.made(what="limit", items=["bytes=5MB"], scope="clicks.*", reason="CHG-117")
    undone = steered.post(f"{CHANGES}/1/undo", reason="too low", dry_run=False)
    again = steered.post(f"{CHANGES}/1/undo", dry_run=False)
    unknown = steered.post(f"{CHANGES}/7/undo")

    assert (shown.status, shown.json["dry_run"], while_shown) == (202, True, ())
    assert (undone.status, undone.json["what"]["change"]) == (202, "undo 1")
    assert undone.json["see"] == CHANGES
    assert (again.status, again.json["code"]) == (422, "configuration")
    assert "it is undone already" in again.json["detail"]
    assert (unknown.status, "the newest one is 2" in unknown.json["detail"]) == (422, True)
    undo, limit = steered.changes.read().changes[::-1]
    assert (limit.items, limit.scope, limit.by) == (("bytes=5000000",), "clicks.*", "bob")
    assert (undo.by, undo.reason) == ("bob", "too low")
    requested = [
        (line.fields["action"], line.fields["by"], line.text) for line in said.of("requested")
    ]
    assert requested == [("limit", "bob", "CHG-117"), ("undo", "bob", "too low")]


def test_the_history_says_who_why_and_what_a_process_follows(steered: FlowOverrides) -> None:
    first = steered.changes.write(new_change(FLOW, "limit", ["records=500"], reason="by hand"))
    steered.changes.publish(Applied(1, frozenset({first.name}), "etl-7", "now", 3))
    steered.made(what="limit", items=["records=900"], reason="CHG-118")

    newest, oldest = steered.history()

    assert (newest["number"], newest["by"], newest["state"]) == (2, "bob", "in force")
    assert (newest["followed"], oldest["followed"]) == (False, True)
    assert (oldest["state"], oldest["reason"]) == ("replaced by a later change", "by hand")
    assert "@" in oldest["by"]
    assert steered.get(f"{CHANGES}?q=records%3D900").json["total"] == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"what": "topics.add", "items": ["orders"]}, "'orders' is in topics already"),
        ({"what": "topics.add", "items": ["a("]}, "not a supported pattern"),
        ({"what": "topics.add", "items": ["a,b"]}, "has a comma"),
        ({"what": "topics.add"}, "needs at least one item"),
        ({"what": "topics.remove", "items": ["order"]}, "did you mean 'orders'?"),
        ({"what": "resume"}, "the flow is not paused as a whole"),
        ({"what": "pause", "scope": "clicks"}, "only a limit has a scope"),
        ({"what": "limit", "items": ["bytes=1"]}, "below the lowest limit"),
        (
            {"what": "limit", "items": ["bytes=0"]},
            "end the limit of a running flow with",
        ),
        ({"what": "limit", "items": ["none"]}, "the flow as a whole has no limit"),
        ({"what": "limit", "items": ["bytes=fast"]}, "is no rate"),
        ({"what": "limit", "items": ["speed=5"]}, "write bytes=N or records=N"),
        ({"what": "limit", "items": ["bytes=5MB", "bytes=9MB"]}, "bytes is given twice"),
        ({"what": "drop", "items": ["x"]}, "what:"),
        ({"what": "hold"}, "hold needs at least one item"),
        ({"what": "hold", "items": ["a failover"]}, "cannot name an operation"),
        ({"what": "release", "items": ["dr-1"]}, "dr-1 does not hold the flow; nothing does"),
        ({"what": "pause", "items": "orders"}, "items:"),
        ({"what": "pause", "reason": "x" * 1001}, "reason:"),
        ({"what": "pause", "by": "eve"}, "by:"),
    ],
)
def test_what_cannot_be_done_is_refused(
    steered: FlowOverrides, body: dict[str, object], says: str
) -> None:
    refused = steered.post(**body, **({} if "dry_run" in body else {"dry_run": False}))

    assert refused.status == 422, refused.text
    assert says in refused.json["detail"]
    assert steered.changes.read().changes == ()


def test_only_the_role_write_may_change_a_flow(steered: FlowOverrides) -> None:
    steered.made(what="limit", items=["bytes=5MB"])

    denied = [
        steered.post(CHANGES, steered.read, what="pause", dry_run=True),
        steered.post(f"{CHANGES}/1/undo", steered.read, dry_run=False),
    ]
    nobody = steered.served.ask(CHANGES, "POST", '{"what": "pause"}', JSON)
    foreign = steered.served.ask(
        "/flows/A/B/changes",
        "POST",
        urlencode({"form_token": "0", "what": "pause", "confirmed": "yes"}),
        {**FORM, **bearer(steered.write)},
    )
    page = steered.get("/flows/A/B").text

    assert [(each.status, each.json["code"]) for each in denied] == [(403, "read-only")] * 2
    assert (nobody.status, foreign.status) == (401, 403)
    assert len(steered.changes.read().changes) == 1
    assert "limit bytes=5000000" in page
    assert "undo…" not in page
    assert 'name="what"' not in page


@pytest.mark.parametrize("body", [{"what": "topics.add", "items": ["clicks"]}, {"what": "pause"}])
def test_a_cluster_that_does_not_answer_is_said_and_the_change_is_made(
    steered: FlowOverrides, body: dict[str, object]
) -> None:
    made = steered.made(**body)

    (warning,) = made["warnings"]
    assert "what else this does is not known" in warning
    assert "A" in warning
    assert not any(made[key] for key in EFFECT)
    assert [change.what for change in steered.changes.read().in_force] == [body["what"]]


def test_a_form_shows_first_and_then_changes(steered: FlowOverrides) -> None:
    fields = {"what": "limit", "items": "bytes=5MB, records=900", "reason": EVIL}
    shown = steered.submit("/flows/A/B/changes", **fields)
    while_shown = steered.changes.read().changes
    done = steered.submit("/flows/A/B/changes", **fields, confirmed="yes")
    (limit,) = steered.changes.read().changes
    page = steered.get("/flows/A/B", steered.write).text
    undo = f"/flows/A/B/changes/1-{limit.id}/undo"
    asked = steered.submit(undo, reason="enough")
    undone = steered.submit(undo, reason="enough", confirmed="yes")

    assert (shown.status, while_shown) == (200, ())
    assert "Nothing has been changed yet" in shown.text
    assert "limit now" in shown.text
    assert (done.status, limit.by, limit.reason) == (200, "bob", EVIL)
    assert limit.items == ("bytes=5000000", "records=900")
    assert f'action="{undo}"' in page
    assert "&lt;script&gt;" in page
    assert EVIL not in page + shown.text + done.text
    assert (asked.status, undone.status) == (200, 200)
    assert [each["state"] for each in steered.history()] == ["in force", "undone"]


def test_a_form_that_asks_for_nothing_is_told_so(steered: FlowOverrides) -> None:
    wrong = steered.submit("/flows/A/B/changes", what="topics.add", confirmed="yes")
    unknown = steered.submit("/flows/A/B/changes", what="drop", confirmed="yes")

    assert (wrong.status, unknown.status) == (422, 422)
    assert "needs at least one item" in wrong.text
    assert steered.changes.read().changes == ()


@pytest.mark.parametrize(
    ("form", "fields", "says"),
    [
        ("stop", {"reason": "x" * 1001}, "reason:"),
        ("accept", {"topic": "orders", "from": "soon"}, "from:"),
        ("accept", {"topic": "orders", "from": "latest", "partition": "all"}, "partition:"),
        ("accept", {"topic": "orders", "from": "latest", "partition": "-1"}, "partition:"),
        ("accept", {"from": "latest"}, "topic:"),
        ("move", {"topic": "orders", "to": "soon"}, "to:"),
        ("move", {"topic": "orders", "to": "4711", "partition": "1,2"}, "partition:"),
        ("move", {"topic": "orders"}, "to:"),
        ("move", {"to": "4711"}, "topic:"),
    ],
)
def test_a_form_with_a_wrong_field_names_it(
    steered: FlowOverrides, form: str, fields: dict[str, str], says: str
) -> None:
    refused = steered.submit(f"/flows/A/B/{form}", **fields, confirmed="yes")

    assert (refused.status, says in refused.text) == (422, True), refused.text


def test_the_page_shows_the_newest_and_rest_has_all_of_them(steered: FlowOverrides) -> None:
    for number in range(25):
        steered.changes.write(new_change(FLOW, "limit", [f"records={number + 100}"]))

    page = steered.get("/flows/A/B").text
    first = steered.get(f"{CHANGES}?limit=15").json
    rest = steered.get(f"{CHANGES}?limit=15&cursor={first['next']}").json

    assert page.count("data-change=") == 20
    assert page.index('data-change="25"') < page.index('data-change="6"')
    numbers = [each["number"] for each in first["items"] + rest["items"]]
    assert (numbers, rest["next"]) == (list(range(25, 0, -1)), None)


def test_a_path_names_all_of_its_methods(steered: FlowOverrides) -> None:
    refused = steered.served.ask(CHANGES, "DELETE", headers=bearer(steered.write))
    undo = steered.get(f"{CHANGES}/1/undo")

    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")
    assert (undo.status, undo.headers["allow"]) == (405, "POST")


def test_a_history_that_cannot_be_read_leaves_the_rest_of_the_page(
    steered: FlowOverrides, tmp_path: Path
) -> None:
    (tmp_path / "state" / "_control").write_text("no folder", encoding="utf-8")

    page, history = steered.get("/flows/A/B"), steered.get()
    refused = steered.post(what="pause", dry_run=False)

    assert (page.status, "cannot list the changes of" in page.text) == (200, True)
    assert "orders-00001" in page.text
    assert (history.status, history.json["code"]) == (503, "state")
    assert (refused.status, refused.json["code"]) == (503, "state")


def test_an_empty_state_directory_and_a_half_written_change_are_said(
    steered: FlowOverrides, tmp_path: Path
) -> None:
    (tmp_path / "state" / "_locks").rmdir()
    before = steered.get().json
    made = steered.made(what="limit", items=["records=500"])
    half = tmp_path / "state" / "_control" / f"change-A-to-B@0000000002-{'a' * 32}"
    half.write_text('{"flow": ', encoding="utf-8")
    after = steered.get().json

    assert "no job ever began with" in before["problems"][0]
    assert any("no job ever began with" in text for text in made["warnings"])
    assert after["total"] == 1
    assert "counts as absent" in after["problems"][0]


def test_what_is_set_aside_is_tried_again_by_rest_and_by_a_form(
    steered: FlowOverrides, tmp_path: Path
) -> None:
    def asked() -> list[tuple[str, ...]]:
        channel = RequestChannel(LocalFiles(), (tmp_path / "state").as_uri())
        return [each.topics for each in OwnerRequests(channel, FLOW, RetryRequest).find()]

    path = "/api/v1/flows/A/B/retry"
    refused = steered.post(path, steered.read, topic="orders", dry_run=False)
    shown = steered.post(path, topic="orders")
    before = asked()
    made = steered.post(path, topic="orders", reason="CHG-117", dry_run=False)
    steered.post(path, dry_run=False)
    form = steered.submit("/flows/A/B/retry", topic="clicks", reason="", confirmed="yes")

    assert (refused.status, refused.json["code"]) == (403, "read-only")
    assert (shown.status, shown.json["dry_run"], before) == (202, True, [])
    assert made.json["what"] == {"action": "retry", "topics": ["orders"]}
    assert form.status == 200, form.text
    assert asked() == [("orders",), (), ("clicks",)]
