"""One process per flow and job, and stop requests to it: real processes, no Spark."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from replication.config.state_access import StateAccess
from replication.errors import LeaseError, StateError
from replication.model import Flow
from replication.state.claim import Claim, LeaseName
from replication.state.files import LocalFiles
from replication.state.locks import JobLocks, find_job_owner, hold_jobs, take_lock
from replication.state.locks import find_owner as find_lock_owner
from replication.state.requests import (
    StopRequests,
    new_path,
    prefix_of,
    request_and_wait,
    request_stop,
)
from tests.support.requests import channel
from tests.support.waiting import in_time, wait_until

Until = Callable[[Callable[[], object], float], None]

FLOW, BACK = Flow("A", "B"), Flow("B", "A")

HOLDER = """
import sys
from replication.model import Flow
from replication.state.locks import hold_jobs
with hold_jobs(sys.argv[1], [Flow("A", "B")], "mirror"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(state_dir: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that runs A->B."""
    command = [sys.executable, "-c", HOLDER, state_dir]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


ON_A_FULL_DISK = """
import resource, sys
from replication.errors import StateError
from replication.model import Flow
from replication.state.locks import hold_jobs
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write fails
try:
    hold_jobs(sys.argv[1], [Flow("A", "B")], "mirror").__enter__()
except StateError as error:
    print(error)
"""


def test_a_lock_that_cannot_be_written_is_an_error_with_the_reason(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ON_A_FULL_DISK, tmp_path.as_uri()]

    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert f"cannot write {tmp_path}/_locks/" in answer.stdout
    assert os.strerror(errno.EFBIG) in answer.stdout
    assert find_job_owner(tmp_path.as_uri(), FLOW) is None


def test_a_second_process_is_refused_by_the_first_ones_name(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    with holder(state_dir) as first:
        refused = pytest.raises(
            LeaseError, match=rf"A->B is already running: .*, process {first.pid}, since \d{{4}}-"
        )
        with refused, hold_jobs(state_dir, [BACK, FLOW], "replicate"):
            pass
        assert find_job_owner(state_dir, BACK) is None, "a refused process keeps no lock"


def test_a_killed_process_is_no_owner(tmp_path: Path) -> None:
    with holder(tmp_path.as_uri()) as first:
        owner = find_job_owner(tmp_path.as_uri(), FLOW)
        first.kill()
        first.wait()

        assert owner is not None
        assert (owner.pid, owner.host) == (first.pid, os.uname().nodename)
        assert find_job_owner(tmp_path.as_uri(), FLOW) is None


def test_a_standby_takes_over_when_the_first_process_has_ended(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    with (
        hold_jobs(state_dir, [FLOW], "checkpoints") as first,
        hold_jobs(state_dir, [FLOW], "checkpoints") as standby,
    ):
        assert not standby.holds(FLOW)
        first.release(FLOW)

        assert standby.holds(FLOW)
        assert not first.holds(FLOW)


def test_no_file_is_made_to_find_no_owner(tmp_path: Path) -> None:
    assert find_job_owner(tmp_path.as_uri(), FLOW) is None
    assert find_job_owner("hdfs:///state", FLOW) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_file: object, _kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(StateError, match=r"cannot lock the file .*/a\.lock: No locks available"):
        take_lock(tmp_path / "a.lock")


def test_a_stop_with_nothing_running_says_so_at_once(tmp_path: Path) -> None:
    with hold_jobs(tmp_path.as_uri(), [FLOW], "mirror"):
        pass
    with in_time(1, "a stop with nothing running"):
        assert request_stop(StateAccess(tmp_path.as_uri()), [FLOW, BACK], timeout_seconds=60) == {}

    assert list(tmp_path.iterdir()) == [tmp_path / "_locks"]


def test_a_stop_is_seen_by_the_process_that_holds_the_lock_and_by_no_other(
    tmp_path: Path, until: Until
) -> None:
    state_dir = tmp_path.as_uri()
    stopped: dict[Flow, int] = {}

    def stop() -> None:
        stopped.update(
            request_stop(
                StateAccess(state_dir), [FLOW, BACK], timeout_seconds=30, job="checkpoints"
            )
        )

    with (
        hold_jobs(state_dir, [FLOW], "checkpoints") as first,
        hold_jobs(state_dir, [FLOW], "checkpoints") as standby,
    ):
        mine, others = (
            StopRequests(
                channel(state_dir),
                [FLOW],
                "checkpoints",
                locks.holds,
                locks.address,
            )
            for locks in (first, standby)
        )
        assert mine.find() == others.find() == set()
        thread = threading.Thread(target=stop)
        thread.start()
        until(mine.find, 10)
        assert others.find() == set()
        assert thread.is_alive(), "it waits for the end"
        mine.answer(FLOW)
        first.release(FLOW)
        wait_until(lambda: not thread.is_alive(), 10)

        assert stopped == {FLOW: 0}
        assert others.find() == set()


def requests_of(state_dir: str, locks: JobLocks) -> StopRequests:
    return StopRequests(channel(state_dir), [FLOW], "mirror", locks.holds, locks.address)


def test_a_request_made_before_the_first_look_counts(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    with hold_jobs(state_dir, [FLOW], "mirror") as locks:
        owner = find_job_owner(state_dir, FLOW)
        assert owner is not None
        request = new_path(state_dir, "stop", FLOW, addressee=owner.address)
        LocalFiles().create(request)
        requests = requests_of(state_dir, locks)

        assert requests.find() == {FLOW}
        requests.answer(FLOW)
        assert not LocalFiles().exists(request)


def test_a_request_to_an_earlier_process_stops_no_other_and_is_removed(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    request = new_path(state_dir, "stop", FLOW, addressee="0123456789ab")
    LocalFiles().create(request)

    with hold_jobs(state_dir, [FLOW], "mirror") as locks:
        assert requests_of(state_dir, locks).find() == set()
    assert not LocalFiles().exists(request)


def test_a_standby_leaves_a_request_to_the_process_that_runs_the_job(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    with (
        hold_jobs(state_dir, [FLOW], "mirror") as first,
        hold_jobs(state_dir, [FLOW], "mirror", standby=True) as standby,
    ):
        request = new_path(state_dir, "stop", FLOW, addressee=first.address(FLOW))
        LocalFiles().create(request)

        assert requests_of(state_dir, standby).find() == set()
        assert LocalFiles().exists(request)
        assert requests_of(state_dir, first).find() == {FLOW}


def test_a_request_to_anyone_is_stale_if_it_was_there_at_the_start(tmp_path: Path) -> None:
    state_dir = tmp_path.as_uri()
    stale, fresh = (new_path(state_dir, "stop", FLOW) for _ in range(2))
    LocalFiles().create(stale)
    requests = StopRequests(channel(state_dir), [FLOW], "mirror", lambda _flow: True)

    assert requests.find() == set()
    assert LocalFiles().exists(stale), "its requester would take it for answered"
    LocalFiles().create(fresh)
    assert requests.find() == {FLOW}


def test_a_process_that_does_not_stop_is_named(tmp_path: Path) -> None:
    with (
        holder(tmp_path.as_uri()) as process,
        pytest.raises(StateError, match=rf"still running .* A->B: .*process {process.pid}"),
    ):
        request_stop(StateAccess(tmp_path.as_uri()), [FLOW], timeout_seconds=0.5)

    prefix = prefix_of(tmp_path.as_uri(), "stop", FLOW)
    assert LocalFiles().find(prefix) == [], "it must not stop later"


def test_a_remote_request_waits_for_its_removal(tmp_path: Path, until: Until) -> None:
    files, path = LocalFiles(), new_path(tmp_path.as_uri(), "stop", FLOW)
    thread = threading.Thread(target=request_and_wait, args=(files, [path], 30))
    thread.start()
    until(lambda: files.exists(path), 10)
    assert thread.is_alive()

    files.delete(path)  # as the process does that runs the flow

    wait_until(lambda: not thread.is_alive(), 10)
    assert not thread.is_alive()


def test_a_remote_request_without_an_answer_is_withdrawn(tmp_path: Path) -> None:
    files, path = LocalFiles(), new_path(tmp_path.as_uri(), "stop", FLOW)

    with pytest.raises(
        StateError, match=r"no process answered file:.*/stop-A-to-B@anyone@\w+ within 0 s"
    ):
        request_and_wait(files, [path], 0)

    assert not files.exists(path)


class CountedFiles(LocalFiles):
    """Counts the folders that were listed: on a remote state directory each is a request."""

    listed = 0

    def find(self, prefix: str) -> list[str]:
        self.listed += 1
        return super().find(prefix)


def test_a_look_lists_the_requests_once_for_all_flows(tmp_path: Path) -> None:
    flows, files, state_dir = [FLOW, BACK], CountedFiles(), tmp_path.as_uri()
    with hold_jobs(state_dir, flows, "mirror") as locks:
        requests = StopRequests(
            channel(state_dir, files), flows, "mirror", locks.holds, locks.address
        )
        requests.watch()
        files.create(new_path(state_dir, "stop", BACK, addressee=locks.address(BACK)))
        files.listed = 0

        assert requests.find() == {BACK}
        assert files.listed == 1


def test_many_may_look_for_the_owner_at_once(tmp_path: Path) -> None:
    """A look takes a shared lock: with an exclusive one, two looks would see an owner."""
    lock = tmp_path / "a.lock"
    lock.touch()
    with lock.open() as another_look:
        fcntl.flock(another_look, fcntl.LOCK_SH)

        assert find_lock_owner(lock) is None


def test_a_standby_of_many_flows_looks_at_all_of_them_at_once(tmp_path: Path) -> None:
    """A standby that waited for each lock noticed a stop ten seconds late with 20 flows."""
    flows = [Flow("A", f"B{number}") for number in range(20)]
    state_dir = tmp_path.as_uri()
    claims = [Claim(LeaseName(flow), state_dir, None) for flow in flows]
    with (
        hold_jobs(state_dir, flows, "mirror"),
        hold_jobs(state_dir, flows, "mirror", standby=True) as standby,
        ExitStack() as leases,
    ):
        for flow in flows:
            assert leases.enter_context(Claim(LeaseName(flow), state_dir, None)).look() == "owner"
        with in_time(0.5, "a look at 40 locks of others"):
            assert not any(standby.holds(flow) for flow in flows)
            assert {claim.await_step(standby=True) for claim in claims} == {"waiting"}
