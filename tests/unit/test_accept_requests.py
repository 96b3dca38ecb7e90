"""What operators have accepted, in files under the state directory."""

from pathlib import Path

import pytest

from replication.errors import StateError
from replication.model import Flow, TopicPartition
from replication.offsets.guard import Accepted, Start
from replication.state.accept_requests import (
    AcceptRequest,
    AcceptRequests,
    pending_acceptances,
    request_acceptance,
)
from replication.state.request_files import LocalFiles

FLOW, OTHER = Flow("A", "B"), Flow("A", "B2")
ORDERS = AcceptRequest("orders", "id-1", (0, 3), 17)


@pytest.mark.parametrize("start", [17, "earliest", "latest"])
def test_the_owner_finds_what_was_requested(tmp_path: Path, start: Start) -> None:
    request_acceptance(tmp_path.as_uri(), FLOW, AcceptRequest("orders", "id-1", (0, 3), start))

    accepted = Accepted(start, "id-1")
    assert pending_acceptances(tmp_path.as_uri(), FLOW) == {
        TopicPartition("orders", 0): accepted,
        TopicPartition("orders", 3): accepted,
    }
    assert pending_acceptances(tmp_path.as_uri(), OTHER) == {}


def test_of_two_requests_the_newer_one_counts(tmp_path: Path) -> None:
    for start in (1, 2, 3):
        request_acceptance(tmp_path.as_uri(), FLOW, AcceptRequest("orders", "id-1", (0,), start))

    (accepted,) = pending_acceptances(tmp_path.as_uri(), FLOW).values()
    assert accepted.start == 3


def test_a_removed_request_is_gone(tmp_path: Path) -> None:
    requests = AcceptRequests(LocalFiles(), tmp_path.as_uri(), FLOW)
    request_acceptance(tmp_path.as_uri(), FLOW, ORDERS)

    requests.remove(requests.find())
    requests.remove([ORDERS])  # of a path that is not there

    assert requests.find() == []


UNKNOWN_START = '{"topic": "t", "topic_id": "i", "partitions": [0], "from": "soon"}'


@pytest.mark.parametrize("text", ["", "{", "[]", '{"topic": "t"}', UNKNOWN_START])
def test_a_file_that_is_no_request_is_passed_over(tmp_path: Path, text: str) -> None:
    request_acceptance(tmp_path.as_uri(), FLOW, ORDERS)
    (file,) = (tmp_path / "_control").iterdir()
    file.with_name(f"{file.name}x").write_text(text)

    (found,) = AcceptRequests(LocalFiles(), tmp_path.as_uri(), FLOW).find()

    assert found.accepted == ORDERS.accepted


def test_a_request_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_control").write_text("not a folder")

    with pytest.raises(StateError, match="cannot write the request"):
        request_acceptance(tmp_path.as_uri(), FLOW, ORDERS)
