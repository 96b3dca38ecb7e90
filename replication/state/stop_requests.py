"""Stops a running job by a file, where no signal reaches the job.

spark-submit passes no signal on to Python. ``spark-submit.sh`` therefore names a file in
``REPLICATION_STOP_FILE``. ``replication stop`` writes one for each flow under the state directory,
and only the process that runs the flow may answer it.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError

from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line
from replication.model import Flow, Job, NewEvent
from replication.state.folder import check_begun
from replication.state.job_lock import find_job_owner
from replication.state.open_files import open_files
from replication.state.open_storage import storage_for
from replication.state.paths import local_path
from replication.state.request_files import RequestFiles
from replication.state.requests import (
    ANYONE,
    Request,
    RequestChannel,
    addressee_of,
    answer_prefix,
    new_path,
    prefix_of,
    request,
)

STOP_FILE: Final = "REPLICATION_STOP_FILE"
POLL_SECONDS: Final = 1.0
"""Between two polls for requests; on a remote state directory every poll is a billed call."""

ASK_SECONDS: Final = 5.0
"""Between two questions whether anybody is left who could answer a request."""

Idle = Callable[[Collection[Flow]], Collection[Flow]]
"""Returns those flows of which it is known that no process runs the job."""


class StopRequests:
    """The requests to one process, in its state directory and in ``REPLICATION_STOP_FILE``.

    Args:
        channel: Where requests are.
        flows: The flows of this process.
        job: What it runs of them.
        may_answer: Whether this process, and no other, runs the job of a flow.
        address: The address of this process in requests to a flow that it runs.
    """

    def __init__(
        self,
        channel: RequestChannel,
        flows: Iterable[Flow],
        job: Job,
        may_answer: Callable[[Flow], bool],
        address: Callable[[Flow], str] = lambda _flow: ANYONE,
    ) -> None:
        self._channel = channel
        self._may_answer = may_answer
        self._address = address
        self._prefixes = {flow: prefix_of(channel.state_dir, "stop", flow, job) for flow in flows}
        self._old: frozenset[str] | None = None
        self._found: dict[Flow, dict[str, Request]] = {}
        self._answered: set[str] = set()

    def watch(self) -> None:
        """Begins to watch: requests to anyone that are there by now are stale."""
        if self._old is None:
            there = self._channel.paths("stop")
            self._old = frozenset(path for path in there if addressee_of(path) == ANYONE)

    def find(self) -> set[Flow]:
        """Returns the flows that are asked to stop."""
        if is_stop_file_there():
            return set(self._prefixes)
        try:
            self.watch()
            there = self._channel.paths("stop")
        except (OSError, Py4JError) as error:
            self._channel.say("requests_unreadable", kind="stop", text=first_line(error))
            there = []
        for path in there:
            if addressee_of(path) is None:
                self._channel.invalid(path, ValueError("not the name of a request to stop"))
        for flow, prefix in self._prefixes.items():
            if self._may_answer(flow):
                self._look(flow, [path for path in there if path.startswith(prefix)])
        return set(self._found)

    def origin(self, flow: Flow) -> str:
        """Returns who has asked that *flow* stops, and why; empty if no file says so."""
        origins = (found.origin for found in self._found.get(flow, {}).values())
        return next(filter(None, origins), "")

    def events(self, flow: Flow) -> list[NewEvent]:
        """Returns an event for each request to *flow* that says who asks."""
        found = self._found.get(flow, {}).values()
        return [each.event("stop", "stop") for each in found if each.origin]

    def answer(self, flow: Flow, exit_code: int = 0) -> None:
        """Answers the requests that `find` has found for *flow*: its job has ended.

        The answer to a request is that it is gone; if the job had failed, a file names the code.
        """
        paths = self._found.get(flow, {}).keys() - self._answered
        self._answered |= paths
        for path in paths:
            if exit_code:
                self._channel.answer(path, exit_code)
            else:
                self._channel.remove(path)

    def _look(self, flow: Flow, paths: Iterable[str]) -> None:
        for path in paths:
            addressee = addressee_of(path)
            if addressee == ANYONE:
                is_meant = path not in (self._old or ())
            else:
                is_meant = addressee == self._address(flow)
            if is_meant and path not in self._found.get(flow, {}):
                # its name says all that a stop needs: on a full disk the file is empty
                found = self._channel.read(path, may_be_empty=True) or Request(path=path)
                self._found.setdefault(flow, {})[path] = found
            elif not is_meant and addressee not in (ANYONE, None):
                self._channel.remove(path)  # it is for an earlier process, which has ended


def is_stop_file_there() -> bool:
    """Returns whether the file that spark-submit.sh has named asks the process to stop."""
    named = os.environ.get(STOP_FILE)
    return bool(named) and Path(str(named)).exists()


def request_stop(
    access: StateAccess,
    flows: Collection[Flow],
    timeout_seconds: float,
    job: Job = "mirror",
    reason: str = "",
    idle: Idle = lambda _flows: (),
) -> dict[Flow, int]:
    """Asks the process that runs *job* of *flows* to stop, and waits until it has.

    Args:
        access: The state directory.
        flows: The flows.
        timeout_seconds: How long to wait.
        job: The job.
        reason: Why, for the log of the process.
        idle: Is asked where the state directory has no locks.

    Returns:
        The exit code of each flow that was running, 0 for a clean end; the others need no stop.

    Raises:
        StateError: The process did not stop in time, or the state directory cannot be written.
        NoAnswerError: No job ever began with the local state directory.
        SetupError: Only Hadoop's client reaches the state directory, and Java does not start.
    """
    text = request(reason=reason).text()
    state_dir = access.state_dir
    is_local = local_path(state_dir) is not None
    known = () if is_local else idle(flows)
    paths = {flow: new_path(state_dir, "stop", flow, job) for flow in flows if flow not in known}
    if not paths:
        return {}
    with open_files(storage_for(access)) as files:
        if is_local:
            return _stop_local(files, (state_dir, flows, job), timeout_seconds, text)
        return _stop_remote(files, paths, timeout_seconds, text, idle)


def _stop_remote(
    files: RequestFiles, paths: Mapping[Flow, str], timeout_seconds: float, text: str, idle: Idle
) -> dict[Flow, int]:
    """Creates requests, and waits until each is removed, or nobody is left to remove it."""
    gone: dict[Flow, str] = {}

    def end_some(left: Collection[str]) -> None:
        flows = {flow: path for flow, path in paths.items() if path in left}
        for flow in idle(flows):
            if files.exists(paths[flow]):  # else it was answered just now
                gone[flow] = paths[flow]
                files.delete(paths[flow])

    request_and_wait(files, paths.values(), timeout_seconds, text, end_some)
    return {flow: _exit_code(files, path) for flow, path in paths.items() if flow not in gone}


def _stop_local(
    files: RequestFiles,
    what: tuple[str, Collection[Flow], Job],
    timeout_seconds: float,
    text: str,
) -> dict[Flow, int]:
    """Requests to the owners of the job locks; waits until each lock is free or has a new owner."""
    state_dir, flows, job = what
    check_begun(state_dir)
    owners = {flow: find_job_owner(state_dir, flow, job) for flow in flows}
    requests = {
        flow: new_path(state_dir, "stop", flow, job, owner.address)
        for flow, owner in owners.items()
        if owner
    }
    _create(files, requests.values(), text)
    deadline = time.monotonic() + timeout_seconds
    while left := [
        flow for flow in requests if find_job_owner(state_dir, flow, job) == owners[flow]
    ]:
        if time.monotonic() > deadline:
            for flow in left:
                files.delete(requests[flow])
            names = "; ".join(f"{flow}: {owners[flow]}" for flow in left)
            raise StateError(f"still running after {timeout_seconds:g} s: {names}")
        time.sleep(POLL_SECONDS / 4)
    for path in requests.values():
        files.delete(path)
    return {flow: _exit_code(files, path) for flow, path in requests.items()}


def _exit_code(files: RequestFiles, request: str) -> int:
    """Removes the answer to *request*; returns its exit code, 0 without an answer."""
    prefix, code = answer_prefix(request), 0
    for answer in files.find(prefix):
        text = answer.removeprefix(prefix)
        code = int(text) if text.isdecimal() else code
        files.delete(answer)
    return code


def request_and_wait(
    files: RequestFiles,
    paths: Collection[str],
    timeout_seconds: float,
    text: str = "",
    when_left: Callable[[Collection[str]], None] = lambda _left: None,
) -> None:
    """Creates requests, and waits until the process that runs the flows has removed them.

    Args:
        files: Where they are.
        paths: Of the requests.
        timeout_seconds: How long to wait.
        text: Of each.
        when_left: Is told every few seconds which of them are left, and may remove some.

    Raises:
        StateError: They were not removed in time, or cannot be written.
    """
    _create(files, paths, text)
    deadline = time.monotonic() + timeout_seconds
    ask_at = time.monotonic() + ASK_SECONDS
    try:
        while left := [path for path in paths if files.exists(path)]:
            if time.monotonic() > deadline:
                for path in left:
                    files.delete(path)
                raise StateError(
                    f"no process answered {', '.join(left)} within {timeout_seconds:g} s: either "
                    "none runs these flows, or it needs longer to stop"
                )
            if time.monotonic() >= ask_at:
                when_left(left)
                ask_at = time.monotonic() + ASK_SECONDS
            time.sleep(POLL_SECONDS)
    except Py4JError as error:
        raise StateError(f"cannot read stop requests: {first_line(error)}") from error


def _create(files: RequestFiles, paths: Iterable[str], text: str) -> None:
    """Creates requests with *text*, or without on a full disk: their names say what is asked.

    Raises:
        StateError: They cannot be written.
    """

    def create(path: str) -> None:
        try:
            files.create(path, text)
        except OSError:
            files.create(path)

    try:
        for path in paths:
            create(path)
    except (OSError, Py4JError) as error:
        raise StateError(f"cannot write stop requests: {first_line(error)}") from error
