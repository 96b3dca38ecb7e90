"""``dead-letters`` shows what the table has, and asks the owner of the flow to copy it again."""

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replication.cli.main import main
from replication.config.file import load_config
from replication.model import Flow
from replication.offsets.dead_letter import DeadLetter, DeadLetterId
from replication.state.dead_letters import TABLE, row_of, waiting_letters
from replication.state.delta import LocalTable
from replication.state.files import LocalFiles
from replication.state.readers import open_reader
from replication.state.requests import (
    DeadLetterRequest,
    OwnerRequests,
    Request,
    RequestChannel,
)
from replication.state.schemas import SCHEMAS

FLOW = Flow("A", "B")
CONFIG = """
clusters: [A, B]
A.bootstrap.servers: nowhere:9092
B.bootstrap.servers: nowhere:9093
A->B: {{enabled: true, topics: [orders]}}
state.dir: {state}
"""
LARGE = DeadLetterId("orders", "id", 0, 7)
DAMAGED = DeadLetterId("orders", "id", 1, 8)
COPIED = DeadLetterId("payments", "id", 0, 9)


def letter(one: DeadLetterId, *, is_read: bool = True) -> DeadLetter:
    reason = "RecordTooLargeException: [bold]3 MB"
    headers = (("a", b"\xff"), ("a", None))
    return DeadLetter(
        FLOW, one, "KAFKA_PRODUCE", reason, 5, b"k", b"\xff", headers, is_read=is_read
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = LocalTable(tmp_path / "state" / "dead_letters")
    for row in (
        row_of(letter(LARGE), TABLE, "waiting"),
        row_of(letter(DAMAGED, is_read=False), TABLE, "waiting"),
        row_of(letter(COPIED), "dead 0 3", "waiting"),
        row_of(letter(COPIED), "A.payments 0 4", "copied"),
    ):
        table.append([row], SCHEMAS["dead_letters"])
    file = tmp_path / "mirror.yaml"
    file.write_text(CONFIG.format(state=(tmp_path / "state").as_uri()))
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["dead-letters", *map(str, arguments)])


def test_what_waits_is_shown_and_with_all_what_was_copied(file: Path) -> None:
    shown, everything = run(file), json.loads(run(file, "--all", "--json").output)["letters"]

    assert "[bold]3 MB" in shown.output
    assert "payments" not in shown.output
    states = {(row["topic"], row["offset"]): (row["state"], row["place"]) for row in everything}
    assert states == {
        ("orders", 7): ("waiting", "table"),
        ("orders", 8): ("waiting", "table"),
        ("payments", 9): ("copied", "A.payments 0 4"),
    }
    assert "no dead letter waits" in run(file, "--topic", "payments").output


def test_the_last_attempt_to_copy_a_letter_is_shown(file: Path, tmp_path: Path) -> None:
    events = LocalTable(tmp_path / "state" / "events")
    now, before = datetime.now(timezone.utc), datetime(2020, 1, 1, tzinfo=timezone.utc)
    for one, at, kind, text in (
        (LARGE, now, "dead-letter-not-copied", "too large still"),
        (LARGE, before, "dead-letter-not-copied", "too large"),
        (LARGE, now, "dead-letter", "another event"),
        (DAMAGED, before, "dead-letter-not-copied", "of another topic of this name"),
    ):
        place = {"topic": one.topic, "partition": one.partition, "offset_from": one.offset}
        row = {"flow": str(FLOW), "at": at, "kind": kind, "text": text, **place}
        events.append([row], SCHEMAS["events"])

    found = json.loads(run(file, "--all", "--json").output)["letters"]

    attempts = {row["offset"]: row["attempt"] and row["attempt"]["text"] for row in found}
    assert attempts == {7: "too large still", 8: None, 9: None}
    assert "last attempt" in run(file).output.replace("\n", " ")


def test_what_waits_is_counted_by_topic_and_place(file: Path, tmp_path: Path) -> None:
    table = LocalTable(tmp_path / "state" / "dead_letters")
    for offset in (1, 2):
        one = letter(LARGE._replace(offset=offset))
        table.append([row_of(one, f"dead 0 {offset}", "waiting")], SCHEMAS["dead_letters"])
    other = replace(letter(LARGE), flow=Flow("C", "B"))
    table.append([row_of(other, TABLE, "waiting")], SCHEMAS["dead_letters"])

    with open_reader(load_config(str(file)).access) as state:
        found = waiting_letters(state, FLOW)
        (oldest,) = state.query("dead_letters", "SELECT min(at) AS at FROM {table}")
        none = waiting_letters(state, Flow("X", "Y"))

    rows = [(one.topic, one.place, one.letters) for one in found]
    assert rows == [("orders", "dead", 2), ("orders", "table", 2)]
    assert found[1].since == oldest["at"].isoformat()
    assert none == ()


def test_what_was_read_is_asked_for(file: Path, tmp_path: Path) -> None:
    asked = json.loads(run(file, "--copy-again", "--json").output)["asked"]

    channel = RequestChannel(LocalFiles(), (tmp_path / "state").as_uri())
    (request,) = OwnerRequests(channel, FLOW, DeadLetterRequest).find()
    assert (asked, request.ids) == (1, (LARGE,))
    assert "copy 1 dead letters of orders again" in request.event.text


@pytest.mark.parametrize(
    "letters", [None, {}, [7], [["t", "id", 0]], [["t", "id", True, 0]], [["t", 1, 0, 0]]]
)
def test_a_request_that_names_no_letter_is_refused(letters: object) -> None:
    with pytest.raises(ValueError, match="letter"):
        DeadLetterRequest.parse(Request({"letters": letters}))
