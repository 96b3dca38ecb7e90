"""Positions that operators move, in files under the state directory."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.model import Flow, Position, TopicPartition
from replication.offsets.moved import MoveTo, Moving
from replication.state.requests import (
    MoveRequest,
    OwnerRequests,
    ask_owner,
    parse_request,
    pending_moves,
    withdraw_moves,
)
from tests.support.requests import channel

FLOW, OTHER = Flow("A", "B"), Flow("A", "B2")
TP, SEEN = TopicPartition("orders", 3), Position(20, 9)


def asked(to: MoveTo = 17, seen: Position | None = SEEN) -> MoveRequest:
    return MoveRequest(TP, Moving(to, seen, "id-1"))


@pytest.mark.parametrize("request_", [asked(), asked("earliest"), asked(seen=None)])
def test_the_owner_finds_what_was_requested(tmp_path: Path, request_: MoveRequest) -> None:
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [request_], "CHG-117")

    (found,) = pending_moves(channel(tmp_path.as_uri()), FLOW).values()
    assert (found.partition, found.moving) == (TP, request_.moving)
    assert found.request.reason == "CHG-117"
    assert pending_moves(channel(tmp_path.as_uri()), OTHER) == {}


def test_of_two_requests_about_a_partition_the_newer_one_counts(tmp_path: Path) -> None:
    for to in (1, 2, 3):
        ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [asked(to)])

    assert pending_moves(channel(tmp_path.as_uri()), FLOW)[TP].moving.to == 3


def test_who_has_moved_what_is_told_once(tmp_path: Path) -> None:
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [asked()], "CHG-117")
    there, told = channel(tmp_path.as_uri()), []
    for _ in range(2):  # each search of positions looks anew
        requests = OwnerRequests(there, FLOW, MoveRequest)
        told += requests.events(requests.find())

    (event,) = told
    assert (event.kind, event.reaction) == ("requested", "accept")
    assert event.details == {"topic": "orders", "partition": 3}
    assert event.text.startswith("move orders-3 to 17, requested 20")
    assert event.text.endswith(": CHG-117")


def test_each_partition_has_a_file_that_is_removed_by_itself(tmp_path: Path) -> None:
    other = MoveRequest(TopicPartition("orders", 4), Moving(1, None, "id-1"))
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [asked(), other])
    requests = OwnerRequests(channel(tmp_path.as_uri()), FLOW, MoveRequest)

    requests.remove([each for each in requests.find() if each.partition == TP])

    assert [each.partition for each in requests.find()] == [other.partition]


def test_what_waits_is_taken_back_and_nothing_of_others(tmp_path: Path) -> None:
    access, other = StateAccess(tmp_path.as_uri()), TopicPartition("orders", 4)
    twice, elsewhere = [asked(21), asked(21)], MoveRequest(other, Moving(21, SEEN, "id-1"))
    ask_owner(access, FLOW, [*twice, asked(17), elsewhere])

    taken_back = [withdraw_moves(access, FLOW, TP, 21) for _ in range(2)]

    (tmp_path / "unreadable").mkdir()
    (tmp_path / "unreadable" / "_control").touch()  # no folder

    with pytest.raises(StateError, match="cannot take back a request"):
        withdraw_moves(StateAccess((tmp_path / "unreadable").as_uri()), FLOW, TP, 17)
    assert taken_back == [2, 0]
    left = OwnerRequests(channel(tmp_path.as_uri()), FLOW, MoveRequest).find()
    assert {(each.partition, each.moving.to) for each in left} == {(TP, 17), (other, 21)}


def content(**fields: object) -> str:
    usual = {"topic": "t", "topic_id": "i", "partition": 0, "to": 1, "seen": [0, 0]}
    return json.dumps({**usual, **fields})


ODD: list[object] = ["soon", -1, 1.0, True, 1 << 63, [], "", {}]
NO_REQUESTS = [
    *(
        "",
        "{",
        "[]",
        "null",
        "9" * 5000,
        '{"topic": "t", "topic_id": "i", "partition": 0, "to": 1}',
    ),
    *(content(to=value) for value in (*ODD, None, "latest")),
    *(content(partition=value) for value in (*ODD, None)),
    *(content(seen=value) for value in (*ODD, [1], [1, -1], [1, None], [1, 2, 3], [True, 1])),
    *(content(topic=value) for value in ODD[1:-2] if not isinstance(value, str)),
    content(topic_id=1),
]


@pytest.mark.parametrize("text", NO_REQUESTS)
def test_a_file_that_is_no_move_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [asked()])
    (file,) = (tmp_path / "_control").iterdir()
    file.with_name(f"{file.name.partition('@')[0]}@0").write_text(text)

    (found,) = OwnerRequests(channel(tmp_path.as_uri()), FLOW, MoveRequest).find()

    assert found.moving == asked().moving
    assert len(caplog.messages) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(json.loads(content()), JSON))


@given(FIELDS.map(json.dumps))
def test_a_text_is_a_move_with_values_of_the_protocol_or_an_error(text: str) -> None:
    try:
        found = MoveRequest.parse(parse_request("path", text))
    except ValueError:
        return
    assert 0 <= found.partition.partition < 1 << 31
    assert found.moving.to == "earliest" or found.moving.to >= 0
    assert json.loads(json.dumps(found.body)).items() <= json.loads(text).items()


def test_a_move_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_control").write_text("not a folder")

    with pytest.raises(StateError, match="cannot write the request"):
        ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [asked()])
