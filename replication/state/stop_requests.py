"""Stops a running job by a file, where no signal reaches the job.

spark-submit passes no signal on to Python. ``spark-submit.sh`` therefore names a file in
``REPLICATION_STOP_FILE``. ``replication stop`` writes one for each flow under the state directory,
and only the process that runs the flow may answer it.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from py4j.protocol import Py4JError

from replication.errors import StateError
from replication.kafka.jvm import open_jvm
from replication.log import Log
from replication.model import Flow, Job
from replication.spark.hadoop import hadoop_conf
from replication.state.folder import check_begun
from replication.state.job_lock import find_owner
from replication.state.paths import (
    ANYONE,
    addressee_of,
    all_requests_prefix,
    answer_prefix,
    local_path,
    new_request,
    request_prefix,
)
from replication.state.request_files import (
    HadoopFiles,
    LocalFiles,
    RequestFiles,
    first_line,
    hadoop_class_path,
)

log = Log(__name__)

STOP_FILE = "REPLICATION_STOP_FILE"
POLL_SECONDS = 1.0
"""Between two looks for requests: on a remote state directory each one is a request, too."""


class StopRequests:
    """The requests to one process, in its state directory and in ``REPLICATION_STOP_FILE``.

    A request is one new file, which names the process that is meant if the requester knows it. It
    is removed by whom it is meant for, when the job has ended, or by its requester.

    Args:
        files: Where requests are.
        state_dir: The state directory.
        flows: The flows of this process.
        job: What it runs of them.
        may_answer: Whether this process, and no other, runs the job of a flow.
        address: The address of this process in requests to a flow that it runs.
    """

    def __init__(
        self,
        files: RequestFiles,
        state_dir: str,
        flows: Iterable[Flow],
        job: Job,
        may_answer: Callable[[Flow], bool],
        address: Callable[[Flow], str] = lambda _flow: ANYONE,
    ) -> None:
        self._files, self._may_answer, self._address = files, may_answer, address
        self._all = all_requests_prefix(state_dir)
        self._prefixes = {flow: request_prefix(state_dir, flow, job) for flow in flows}
        self._old: frozenset[str] | None = None
        self._found: dict[Flow, set[str]] = {}
        self._answered: set[str] = set()
        self._said: set[str] = set()

    def watch(self) -> None:
        """Begins to watch: requests to anyone that are there by now are stale."""
        if self._old is None:
            there = self._files.find(self._all)
            self._old = frozenset(path for path in there if addressee_of(path) == ANYONE)

    def find(self) -> set[Flow]:
        """The flows that are asked to stop."""
        if is_stop_file_there():
            return set(self._prefixes)
        try:
            self.watch()
            there = self._files.find(self._all)
        except (OSError, Py4JError) as error:
            self._say("stop_requests_unreadable", text=first_line(error))
            return set(self._found)
        for path in there:
            if addressee_of(path) is None:
                text = "no request of python -m replication stop; it is passed over. Remove it"
                self._say("stop_request_invalid", path=path, text=text)
        for flow, prefix in self._prefixes.items():
            if self._may_answer(flow):
                self._look(flow, [path for path in there if path.startswith(prefix)])
        return set(self._found)

    def answer(self, flow: Flow, exit_code: int = 0) -> None:
        """Answers the requests that `find` has found for *flow*: its job has ended.

        The answer to a request is that it is gone; if the job had failed, a file names the code.
        """
        paths = self._found.get(flow, set()) - self._answered
        self._answered |= paths
        for path in paths:
            if exit_code:
                try:
                    self._files.rename(path, f"{answer_prefix(path)}{exit_code}")
                    continue
                except (OSError, Py4JError) as error:
                    text = (
                        f"its requester is not told of exit code {exit_code}: {first_line(error)}"
                    )
                    self._say("stop_request_left", flow=flow, path=path, text=text)
            self._delete(flow, path)

    def _look(self, flow: Flow, requests: Iterable[str]) -> None:
        for path in requests:
            addressee = addressee_of(path)
            if addressee == ANYONE:
                is_meant = path not in (self._old or ())
            else:
                is_meant = addressee == self._address(flow)
            if is_meant:
                self._found.setdefault(flow, set()).add(path)
            elif addressee not in (ANYONE, None):  # it is for an earlier process, which has ended
                self._delete(flow, path)

    def _delete(self, flow: Flow, path: str) -> None:
        try:
            self._files.delete(path)
        except (OSError, Py4JError) as error:
            text = f"{first_line(error)}; remove it"
            self._say("stop_request_left", flow=flow, path=path, text=text)

    def _say(self, event: str, **fields: object) -> None:
        """Logs a warning, unless it was the same before: requests are looked for every second."""
        if (warning := f"{event} {fields}") not in self._said:
            self._said.add(warning)
            log.warning(event, **fields)


def is_stop_file_there() -> bool:
    """Whether the file that spark-submit.sh has named asks the process to stop."""
    named = os.environ.get(STOP_FILE)
    return bool(named) and Path(str(named)).exists()


def request_stop(
    state_dir: str,
    flows: Collection[Flow],
    timeout_seconds: float,
    job: Job = "mirror",
    hadoop: Mapping[str, str] | None = None,
) -> dict[Flow, int]:
    """Asks the process that runs *job* of *flows* to stop, and waits until it has.

    Args:
        state_dir: The state directory.
        flows: The flows.
        timeout_seconds: How long to wait.
        job: The job.
        hadoop: Hadoop's properties for a remote state directory.

    Returns:
        The exit code of each flow that was running, 0 for a clean end; the others need no stop. On
        a remote state directory that is known only when the process answers.

    Raises:
        StateError: The process did not stop in time, or the state directory cannot be written.
        NoAnswerError: No job ever began with the local state directory.
        SetupError: The state directory is remote, and Java, which is needed then, does not start.
    """
    if local_path(state_dir) is None:
        with open_jvm(hadoop_class_path()) as jvm:
            files = HadoopFiles(jvm, hadoop_conf(jvm, hadoop or {}))
            paths = {flow: new_request(state_dir, flow, job) for flow in flows}
            request_and_wait(files, paths.values(), timeout_seconds)
            return {flow: _exit_code(files, path) for flow, path in paths.items()}
    return _stop_local(state_dir, flows, timeout_seconds, job)


def _stop_local(
    state_dir: str, flows: Collection[Flow], timeout_seconds: float, job: Job
) -> dict[Flow, int]:
    """Requests to the owners of the job locks; waits until each lock is free or has a new owner."""
    check_begun(state_dir)
    files = LocalFiles()
    owners = {flow: find_owner(state_dir, flow, job) for flow in flows}
    requests = {
        flow: new_request(state_dir, flow, job, owner.address)
        for flow, owner in owners.items()
        if owner
    }
    try:
        for path in requests.values():
            files.create(path)
    except OSError as error:
        raise StateError(f"cannot write stop requests: {first_line(error)}") from error
    deadline = time.monotonic() + timeout_seconds
    while left := [flow for flow in requests if find_owner(state_dir, flow, job) == owners[flow]]:
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
    """The exit code in the answer to *request*, which is removed; 0 without an answer."""
    prefix, code = answer_prefix(request), 0
    for answer in files.find(prefix):
        text = answer.removeprefix(prefix)
        code = int(text) if text.isdecimal() else code
        files.delete(answer)
    return code


def request_and_wait(files: RequestFiles, paths: Collection[str], timeout_seconds: float) -> None:
    """Creates requests, and waits until the process that runs the flows has removed them.

    Raises:
        StateError: They were not removed in time, or cannot be written.
    """
    try:
        for path in paths:
            files.create(path)
        deadline = time.monotonic() + timeout_seconds
        while left := [path for path in paths if files.exists(path)]:
            if time.monotonic() > deadline:
                for path in left:
                    files.delete(path)
                raise StateError(
                    f"no process answered {', '.join(left)} within {timeout_seconds:g} s: either "
                    "none runs these flows, or it needs longer to stop"
                )
            time.sleep(POLL_SECONDS)
    except Py4JError as error:
        raise StateError(f"cannot write stop requests: {first_line(error)}") from error
