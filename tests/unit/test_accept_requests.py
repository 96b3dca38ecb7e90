"""What operators have accepted, in files under the state directory."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.model import Flow, TopicPartition
from replication.offsets.guard import Accepted, StartOffset
from replication.state.files import MOST_BYTES
from replication.state.requests import (
    AcceptRequest,
    OwnerRequests,
    ask_owner,
    parse_request,
    pending_acceptances,
)
from tests.support.requests import channel

FLOW, OTHER = Flow("A", "B"), Flow("A", "B2")
ORDERS = AcceptRequest("orders", "id-1", (0, 3), 17)


@pytest.mark.parametrize("start", [17, "earliest", "latest"])
def test_the_owner_finds_what_was_requested(tmp_path: Path, start: StartOffset) -> None:
    ask_owner(
        StateAccess(tmp_path.as_uri()), FLOW, [AcceptRequest("orders", "id-1", (0, 3), start)]
    )

    accepted = Accepted(start, "id-1")
    assert pending_acceptances(channel(tmp_path.as_uri()), FLOW) == {
        TopicPartition("orders", 0): accepted,
        TopicPartition("orders", 3): accepted,
    }
    assert pending_acceptances(channel(tmp_path.as_uri()), OTHER) == {}


def test_of_two_requests_the_newer_one_counts(tmp_path: Path) -> None:
    for start in (1, 2, 3):
        ask_owner(
            StateAccess(tmp_path.as_uri()), FLOW, [AcceptRequest("orders", "id-1", (0,), start)]
        )

    (accepted,) = pending_acceptances(channel(tmp_path.as_uri()), FLOW).values()
    assert accepted.start == 3


def test_who_has_accepted_what_is_told_once(tmp_path: Path) -> None:
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [ORDERS], "bob by REST: CHG-117")
    requests_there = channel(tmp_path.as_uri())
    told = []
    for _ in range(2):  # each search of positions looks anew
        requests = OwnerRequests(requests_there, FLOW, AcceptRequest)
        told += requests.events(requests.find())

    (event,) = told
    assert (event.kind, event.reaction, event.details) == (
        "requested",
        "accept",
        {"topic": "orders"},
    )
    assert event.text.startswith("accept orders from 17 (partitions 0, 3), requested 20")
    assert event.text.endswith(": bob by REST: CHG-117")


def test_a_removed_request_is_gone(tmp_path: Path) -> None:
    requests = OwnerRequests(channel(tmp_path.as_uri()), FLOW, AcceptRequest)
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [ORDERS])

    requests.remove(requests.find())
    requests.remove([ORDERS])  # of a path that is not there

    assert requests.find() == []


def content(**fields: object) -> str:
    usual = {"topic": "t", "topic_id": "i", "partitions": [0], "from": 1}
    return json.dumps({**usual, **{name.rstrip("_"): value for name, value in fields.items()}})


STARTS: list[object] = ["soon", -1, 1.0, True, None, 1 << 63, [], ""]
NUMBERS: list[object] = [0, "0", [1.5], [-1], [True], [1 << 31], {}, [math.inf], [math.nan]]
NO_REQUESTS: list[str | bytes] = [
    *("", "{", "[]", "[1]", "null", '{"topic": "t"}', "[" * 100_000, '{"a":' * 100_000, "9" * 5000),
    *(content(from_=start) for start in STARTS),
    *(content(partitions=numbers) for numbers in NUMBERS),
    *(content(topic=topic) for topic in STARTS[1:-1]),
    content(topic_id=1),
    *(b"\xff\xfe", b"\x00" * 9, b" " * (MOST_BYTES + 1), content().encode("utf-16")),
]


@pytest.mark.parametrize("number", range(len(NO_REQUESTS)))
def test_a_file_that_is_no_request_is_passed_over_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    text = NO_REQUESTS[number]
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [ORDERS])
    odd = named_like_a_request(tmp_path)
    odd.write_bytes(text if isinstance(text, bytes) else text.encode())

    requests_there = channel(tmp_path.as_uri())
    for _ in range(3):
        requests = OwnerRequests(requests_there, FLOW, AcceptRequest)
        assert [found.accepted for found in requests.find()] == [ORDERS.accepted]

    assert len(caplog.messages) == 1, "once"
    assert str(odd) in caplog.text
    assert "ask again" in caplog.text


def named_like_a_request(state: Path) -> Path:
    """A name before that of the only request."""
    (file,) = (state / "_control").iterdir()
    return file.with_name(f"{file.name.partition('@')[0]}@0")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to itself"])
def test_what_is_no_file_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [ORDERS])
    odd = named_like_a_request(tmp_path)
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(odd)

    (found,) = OwnerRequests(channel(tmp_path.as_uri()), FLOW, AcceptRequest).find()

    assert found.accepted == ORDERS.accepted
    assert str(odd) in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(json.loads(content()), JSON))


@given(st.text() | JSON.map(json.dumps) | FIELDS.map(json.dumps))
def test_a_text_is_a_request_with_values_of_the_protocol_or_an_error(text: str) -> None:
    try:
        request = AcceptRequest.parse(parse_request("path", text))
    except ValueError:
        return
    assert all(0 <= tp.partition < 1 << 31 for tp in request.accepted)
    assert isinstance(request.start, str) or request.start >= 0
    assert json.loads(json.dumps(request.body)).items() <= json.loads(text).items()


def test_a_request_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_control").write_text("not a folder")

    with pytest.raises(StateError, match="cannot write the request"):
        ask_owner(StateAccess(tmp_path.as_uri()), FLOW, [ORDERS])
