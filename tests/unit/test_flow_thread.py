"""Flows fail on their own; the process ends with the exit code of the failure that came first."""

import os
import re
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from pyspark import SparkContext

from replication.app import flow_thread
from replication.app.flow_thread import JVM_HAS_ENDED, FlowThread, WhenEnded, wait_for_all
from replication.app.run_history import JobOutcome
from replication.demo.brokers import free_port
from replication.errors import ClusterError, GuardError
from replication.model import Flow, NewEvent
from replication.spark.session import has_jvm_ended
from replication.state.files import LocalFiles
from replication.state.locks import JobLocks, find_job_owner, hold_jobs
from replication.state.requests import Request, StopRequests, new_path
from tests.support.requests import channel
from tests.support.said import SaidLines
from tests.support.waiting import wait_until

FIRST, SECOND = Flow("A", "B"), Flow("B", "A")
Work = Callable[[threading.Event], None]


def unnoted(*_: object, **__: object) -> None:
    """Takes a flow's end, and does nothing."""


@contextmanager
def started(
    state_dir: str, *works: Work, when_ended: WhenEnded = unnoted
) -> Iterator[tuple[list[FlowThread], StopRequests, JobLocks]]:
    """A running thread for each of *works*, with real locks and request files."""
    flows = [FIRST, SECOND][: len(works)]
    with hold_jobs(state_dir, flows, "mirror") as locks:
        requests = StopRequests(channel(state_dir), flows, "mirror", locks.holds, locks.address)
        pairs = zip(flows, works, strict=True)
        threads = [FlowThread(flow, work, when_ended) for flow, work in pairs]
        for thread in threads:
            thread.start()
        yield threads, requests, locks


def until_stopped(stop: threading.Event) -> None:
    """The work of a healthy flow."""
    wait_until(stop.is_set, 30)


def failing(error: BaseException, after: threading.Event | None = None) -> Work:
    """The work of a flow that fails with *error*, once *after* is set."""

    def work(_stop: threading.Event) -> None:
        if after is not None:
            wait_until(after.is_set, 30)
        raise error

    return work


@pytest.fixture
def ask_ended_jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Asks the process's JVM, which does not listen any more."""
    own = PythonParameters(port=0, daemonize=True)
    gateway = ClientServer(JavaParameters(port=free_port()), own)
    monkeypatch.setattr(SparkContext, "_jvm", gateway.jvm)

    def ask() -> None:
        gateway.jvm.java.lang.System.nanoTime()

    yield ask
    gateway.shutdown()


@pytest.mark.usefixtures("ask_ended_jvm")
def test_a_lack_of_files_says_nothing_of_the_jvm() -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_file = os.dup(0)
    os.close(next_file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, most))
    try:
        ended = has_jvm_ended()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    assert (ended, has_jvm_ended()) == (False, True)


def test_the_process_outlives_its_jvm_until_the_flows_have_said_so(
    tmp_path: Path, ask_ended_jvm: Callable[[], None]
) -> None:
    """The main loop may notice it before they do."""
    asked = threading.Event()

    def turn() -> None:
        asked.set()
        ask_ended_jvm()

    with started(tmp_path.as_uri(), failing(OSError("111"), after=asked)) as running:
        outcome = wait_for_all(*running, turn=turn)

    failure = running[0][0].failure
    assert failure is not None
    assert (str(failure.error), failure.outcome) == (JVM_HAS_ENDED, outcome)


def test_a_flow_that_does_not_notice_the_end_of_the_jvm_keeps_no_process(
    tmp_path: Path, ask_ended_jvm: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_thread, "ALONE_SECONDS", 0.1)

    ends: list[str] = []

    def note(error: BaseException | None, *, is_stopped: bool) -> None:
        assert not is_stopped
        ends.append(str(error))

    with started(tmp_path.as_uri(), until_stopped, when_ended=note) as running:
        outcome = wait_for_all(*running, turn=ask_ended_jvm)
        (thread,) = running[0]
        thread.stop.set()
        thread.join()

    assert ends == [JVM_HAS_ENDED], "once, although its work ended cleanly later"
    assert thread.failure is not None
    assert thread.failure.outcome == outcome


def test_a_clean_end_is_0(tmp_path: Path) -> None:
    with started(tmp_path.as_uri(), lambda _stop: None) as (threads, requests, locks):
        assert wait_for_all(threads, requests, locks) == JobOutcome()
        assert threads[0].failure is None


def test_an_end_that_nobody_could_note_is_no_clean_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: SaidLines
) -> None:
    def cannot(error: BaseException | None, *, is_stopped: bool) -> None:
        raise OverflowError(f"a date is out of range: {error}, {is_stopped}")

    with started(tmp_path.as_uri(), lambda _stop: None) as (threads, requests, locks):
        (thread,) = threads
        wait_until(lambda: not thread.is_alive(), 30)
        thread = FlowThread(FIRST, lambda _stop: None, cannot)
        thread.start()

        outcome = wait_for_all([thread], requests, locks)

    assert outcome == JobOutcome(1, "flow A->B: a date is out of range: None, False")
    assert [line.text for line in said.of("flow_failed")] == ["internal error, please report it"]
    assert "Traceback" in caplog.text


def test_the_exit_code_is_that_of_the_first_failure_in_time(tmp_path: Path) -> None:
    release = threading.Event()
    works = failing(ClusterError("later"), after=release), failing(GuardError("first"))
    with started(tmp_path.as_uri(), *works) as (threads, requests, locks):
        wait_until(lambda: not threads[1].is_alive(), 30)
        release.set()

        assert wait_for_all(threads, requests, locks).exit_code == GuardError.exit_code


def test_an_internal_error_is_1_and_logged_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: SaidLines
) -> None:
    with started(tmp_path.as_uri(), failing(ZeroDivisionError("unexpected"))) as running:
        assert wait_for_all(*running).exit_code == 1

    (line,) = said.of("flow_failed")
    assert (line.flow, line.text) == ("A->B", "internal error, please report it")
    assert "ZeroDivisionError: unexpected" in caplog.text


def test_a_failed_flow_is_logged_again_while_others_run(tmp_path: Path, said: SaidLines) -> None:
    def until_reminded_twice(_stop: threading.Event) -> None:
        wait_until(lambda: len(said.of("flow_down")) >= 2, 30)

    works = until_reminded_twice, failing(GuardError("no longer there"))
    with started(tmp_path.as_uri(), *works) as (threads, requests, locks):
        code = wait_for_all(threads, requests, locks, remind_seconds=0.1).exit_code

    assert code == GuardError.exit_code
    for line in (*said.of("flow_down")[:2], *said.of("flow_failed")):
        assert (line.flow, line.text) == ("B->A", "no longer there")
    assert len(said.of("flow_failed")) == 1


def test_a_request_stops_its_flow_only_and_frees_its_lock(tmp_path: Path, said: SaidLines) -> None:
    state_dir = tmp_path.as_uri()

    def until_other_is_free(stop: threading.Event) -> None:
        while find_job_owner(state_dir, FIRST) is not None:
            assert not stop.wait(0.05)

    with started(state_dir, until_stopped, until_other_is_free) as (threads, requests, locks):
        path = new_path(state_dir, "stop", FIRST, "mirror", locks.address(FIRST))
        LocalFiles().create(path, Request(by="ann@desk", reason="CHG-117").text())
        recorded: list[NewEvent] = []
        threads[0].record = recorded.extend

        assert wait_for_all(threads, requests, locks) == JobOutcome()
        assert [thread.stop.is_set() for thread in threads] == [True, False]
        assert requests.find() == {FIRST}
    (line,) = said.of("flow_stopping")
    assert line.text == "stop requested by ann@desk: CHG-117"
    (event,) = recorded
    assert (event.kind, event.reaction) == ("requested", "stop")
    assert re.fullmatch(r"stop, requested 20\d\d-\S+Z by ann@desk: CHG-117", event.text)


def test_the_leases_of_flows_that_end_soon_after_another_are_given_back_together(
    tmp_path: Path,
) -> None:
    looked, given = threading.Event(), list[list[Flow]]()

    def until_the_first_was_seen(_stop: threading.Event) -> None:
        wait_until(looked.is_set, 30)

    class Requests(StopRequests):
        def find(self) -> set[Flow]:
            if not threads[0].is_alive():
                looked.set()
            return super().find()

    works = (lambda _stop: None), until_the_first_was_seen
    with started(tmp_path.as_uri(), *works) as (threads, _, locks):
        asked = channel(tmp_path.as_uri())
        requests = Requests(asked, [FIRST, SECOND], "mirror", locks.holds, locks.address)
        wait_for_all(threads, requests, locks, give_back=lambda flows: given.append([*flows]))

    assert given == [[FIRST, SECOND]]


def test_a_flow_that_fails_gives_its_leases_back_while_others_run(tmp_path: Path) -> None:
    state_dir, given = tmp_path.as_uri(), list[list[Flow]]()

    def until_other_is_free(_stop: threading.Event) -> None:
        wait_until(lambda: find_job_owner(state_dir, FIRST) is None, 30)
        assert given == [[FIRST]], "before its lock is free"

    works = failing(GuardError("gone")), until_other_is_free
    with started(state_dir, *works) as (threads, requests, locks):
        wait_for_all(threads, requests, locks, give_back=lambda flows: given.append([*flows]))

    assert threads[1].failure is None
    assert given == [[FIRST], [SECOND]]
