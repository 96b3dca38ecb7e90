"""A state.dir that disappears is noticed, and not made again."""

import shutil
from pathlib import Path

import pytest

from replication.config.state_access import StateAccess
from replication.errors import NoAnswerError, StateError
from replication.model import Flow
from replication.state.folder import StateFolder, check_begun
from replication.state.locks import hold_jobs
from replication.state.requests import request_stop

FLOW = Flow("A", "B")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.check()
    assert not (tmp_path / "state").exists(), "a look makes nothing"

    folder.begin()
    folder.begin()
    StateFolder(tmp_path / "state").begin()  # as another process
    folder.check()


@pytest.mark.parametrize("in_its_place", ["nothing", "an empty folder", "another state.dir"])
def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path, in_its_place: str) -> None:
    path = tmp_path / "state"
    folder = StateFolder(path)
    folder.begin()

    away = path.rename(tmp_path / "away")
    if in_its_place == "an empty folder":  # as beneath a file system that is no longer mounted
        path.mkdir()
    elif in_its_place == "another state.dir":
        StateFolder(path).begin()
    for look in (folder.begin, folder.check):
        with pytest.raises(StateError, match="is no longer the folder in which this process began"):
            look()
    assert not folder.is_there()
    assert path.exists() == (in_its_place != "nothing")

    shutil.rmtree(path, ignore_errors=True)
    away.rename(path)
    folder.begin()
    assert folder.is_there()


def test_a_standby_takes_no_lock_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    state_dir = (tmp_path / "state").as_uri()
    with (
        hold_jobs(state_dir, [FLOW], "mirror") as first,
        hold_jobs(state_dir, [FLOW], "mirror", standby=True) as standby,
    ):
        (tmp_path / "state").rename(tmp_path / "away")

        assert not standby.holds(FLOW), "the lock of the moved folder is held"
        assert first.holds(FLOW)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_where_no_job_began_nobody_knows_whether_one_runs(tmp_path: Path, *, exists: bool) -> None:
    path = tmp_path / "state"
    if exists:
        path.mkdir()

    with pytest.raises(NoAnswerError, match="a job may run all the same"):
        check_begun(path.as_uri())
    with pytest.raises(NoAnswerError):
        request_stop(StateAccess(path.as_uri()), [FLOW], timeout_seconds=1)

    check_begun("s3a://bucket/state")
