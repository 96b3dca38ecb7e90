"""Requests to stop, among whatever else lies in their folder."""

import errno
import os
import string
import threading
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.model import Flow
from replication.state.files import LocalFiles
from replication.state.locks import hold_jobs
from replication.state.requests import (
    ANYONE,
    AcceptRequest,
    OwnerRequests,
    StopRequests,
    addressee_of,
    new_path,
    parse_request,
    request,
    request_and_wait,
    request_stop,
)
from tests.support.local import Until
from tests.support.requests import channel
from tests.support.said import SaidLines

FLOW, BACK = Flow("A", "B"), Flow("B", "A")
STRAYS = [
    *("stop-", "stop-x~", "stop-A-to-B", "stop-A-to-B@", "stop-A-to-B@@", "stop-A-to-B@anyone@"),
    *("stop-A-to-B@anyone@1.swp", "stop-A-to-B@anyone@1~", "stop-@anyone@1", "stop-A-to-B@a b@1"),
]


def everything(state_dir: str) -> StopRequests:
    return StopRequests(channel(state_dir), [FLOW, BACK], "mirror", lambda _flow: True)


@pytest.mark.parametrize("stray", STRAYS)
def test_a_stray_file_is_logged_once_and_hides_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stray: str
) -> None:
    state_dir, files = tmp_path.as_uri(), LocalFiles()
    files.create(f"{state_dir}/_control/{stray}")
    requests = everything(state_dir)

    assert requests.find() == set()
    files.create(new_path(state_dir, "stop", BACK))
    assert requests.find() == requests.find() == {BACK}

    assert [stray in line for line in caplog.messages] == [True], "once"
    assert "Remove it" in caplog.text


def test_a_folder_that_cannot_be_listed_is_said_once_for_each_kind_and_asks_for_nothing(
    tmp_path: Path, said: SaidLines
) -> None:
    state_dir = tmp_path.as_uri()
    (tmp_path / "_control").write_text("a file in its place")
    requests, acceptances = (
        everything(state_dir),
        OwnerRequests(channel(state_dir), FLOW, AcceptRequest),
    )

    assert requests.find() == requests.find() == set()
    assert acceptances.find() == acceptances.find() == []

    lines = said.of("requests_unreadable")
    assert [(line.fields["kind"], line.flow) for line in lines] == [
        ("stop", ""),
        ("accept", "A->B"),
    ]
    assert all("Not a directory" in line.text for line in lines)


def test_what_cannot_be_removed_hides_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state_dir = tmp_path.as_uri()
    (tmp_path / "_control" / "stop-A-to-B@0123456789ab@1").mkdir(parents=True)
    requests = everything(state_dir)

    requests.find()
    LocalFiles().create(new_path(state_dir, "stop", BACK))

    assert requests.find() == requests.find() == {BACK}
    assert len(caplog.messages) == 1, "once"


def test_a_file_in_the_place_of_the_folder_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_control").write_text("not a folder")
    requests = everything(tmp_path.as_uri())

    assert requests.find() == requests.find() == set()
    assert len(caplog.messages) == 1, "once"


def test_a_request_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_control").write_text("not a folder")
    with (
        hold_jobs(tmp_path.as_uri(), [FLOW], "mirror"),
        pytest.raises(StateError, match=r"cannot write stop requests: .*_control"),
    ):
        request_stop(StateAccess(tmp_path.as_uri()), [FLOW], timeout_seconds=1)


NAMES = st.text(string.ascii_letters + string.digits + "@-._~ \n/é", max_size=30)


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers()))
@example(" \u00a0\r\n\ufeff", {"": "\u2028"})
def test_a_request_is_read_as_it_was_written(reason: str, body: dict[str, str | int]) -> None:
    made = request({key: body[key] for key in body.keys() - {"by", "reason"}}, reason)

    assert replace(parse_request("path", made.text()), path="") == made


@given(NAMES, NAMES)
def test_whatever_a_file_is_called_it_is_a_request_or_it_is_not(folder: str, name: str) -> None:
    addressee = addressee_of(f"{folder}/_control/stop-{name}")

    assert addressee is None or addressee.isalnum()
    assert addressee_of(new_path("file:/state", "stop", FLOW)) == ANYONE
    assert addressee_of(new_path("file:/state", "stop", FLOW, addressee="0123456789ab")) is not None


def test_who_stops_a_flow_that_has_failed_is_told_its_exit_code(
    tmp_path: Path, until: Until
) -> None:
    state_dir = tmp_path.as_uri()
    stopped: dict[Flow, int] = {}

    def stop() -> None:
        stopped.update(request_stop(StateAccess(state_dir), [FLOW, BACK], timeout_seconds=30))

    with hold_jobs(state_dir, [FLOW, BACK], "mirror") as locks:
        requests = StopRequests(
            channel(state_dir),
            [FLOW, BACK],
            "mirror",
            locks.holds,
            locks.address,
        )
        thread = threading.Thread(target=stop)
        thread.start()
        until(lambda: requests.find() == {FLOW, BACK}, 10)
        for flow, exit_code in ((FLOW, 7), (BACK, 0)):
            requests.answer(flow, exit_code)
            requests.answer(flow, exit_code)  # as on every look after its end
            locks.release(flow)
        thread.join(10)

    assert stopped == {FLOW: 7, BACK: 0}
    assert list((tmp_path / "_control").iterdir()) == []


class FullDisk(LocalFiles):
    """A disk that has room for names, and for nothing else, as ext4's often has."""

    def create(self, path: str, text: str = "") -> None:
        if text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().create(path)


def test_on_a_full_disk_the_name_alone_stops_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_path(tmp_path.as_uri(), "stop", FLOW)
    requests = everything(tmp_path.as_uri())
    requests.watch()

    with pytest.raises(StateError, match="no process answered"):
        request_and_wait(FullDisk(), [path], 0, request(reason="full").text())
    FullDisk().create(path)

    assert requests.find() == {FLOW}
    assert requests.origin(FLOW) == ""
    assert caplog.messages == []


def test_a_request_is_given_up_when_nobody_is_left_to_answer_it(tmp_path: Path) -> None:
    path, left = f"{tmp_path.as_uri()}/_control/stop-A-to-B@anyone@1", list[list[str]]()

    def end(paths: Collection[str]) -> None:
        left.append([*paths])
        LocalFiles().delete(path)

    request_and_wait(LocalFiles(), [path], 60, "", end)

    assert left == [[path]]
