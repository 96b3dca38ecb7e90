"""Threads that run one flow each, and the outcome of all of them."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from py4j.protocol import Py4JError

from replication.app.run_history import JobOutcome
from replication.errors import FlowError, ReplicationError
from replication.flows.context import CatchUp
from replication.log import Log
from replication.model import Flow, NewEvent
from replication.spark.session import has_jvm_ended
from replication.state.locks import JobLocks
from replication.state.requests import POLL_SECONDS, STOPS, StopKind, StopRequests

log = Log(__name__)

REMIND_SECONDS = 60.0
TOGETHER_SECONDS = 30.0
"""How long a flow that has ended waits for others, so that one commit gives all leases back."""

ALONE_SECONDS = 5.0
"""How long a flow may take to notice that the driver's JVM has ended; some look once a minute."""


JVM_HAS_ENDED: Final = (
    "the driver's JVM ended without a word: it was killed, by hand or by the system for lack of "
    "memory; the last line of spark-submit.sh or of the platform has the signal; starting the job "
    "again is safe"
)


class WhenEnded(Protocol):
    """What is told of a flow's end."""

    def __call__(self, error: BaseException | None, *, is_stopped: bool) -> None:
        """Takes the *error*, None for a clean end, and whether the flow was to stop."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a flow, and when by the process's own clock."""

    flow: Flow
    error: BaseException
    at: float

    @property
    def outcome(self) -> JobOutcome:
        """What the process tells of it at its end."""
        return JobOutcome.of(self.error, f"flow {self.flow}")


class FlowThread(threading.Thread):
    """Runs one flow; afterwards ``failure`` is the error that ended it, None for a clean end.

    *work* runs the flow until the event is set or nothing is left to do, *record* takes its events,
    *catch_up* tells it who waits that it ends once it has caught up.
    """

    def __init__(
        self,
        flow: Flow,
        work: Callable[[threading.Event], None],
        when_ended: WhenEnded = lambda _error, is_stopped: None,  # noqa: ARG005 - by its name
        record: Callable[[Sequence[NewEvent]], None] = lambda _events: None,
        catch_up: CatchUp | None = None,
    ) -> None:
        super().__init__(name=str(flow), daemon=True)
        self.flow = flow
        self.log = log.bind(flow)
        self.record = record
        self.catch_up = catch_up or CatchUp()
        self.stop = threading.Event()
        self.failure: Failure | None = None
        self._work = work
        self._when_ended = when_ended
        self._telling = threading.Lock()
        self._is_told = False

    def run(self) -> None:
        """Does the thread's work: logs a failure at once, and keeps it."""
        self._run()
        self.tell_end()

    def tell_end(self, given_up: ReplicationError | None = None) -> None:
        """Tells of the end, once; *given_up* is one that only the process has noticed."""
        with self._telling:
            if self._is_told:
                return
            self._is_told = True
            if given_up is not None and self.failure is None:
                self.failure = Failure(self.flow, given_up, time.monotonic())
                self.log.error("flow_failed", text=given_up)
            error = self.failure.error if self.failure else None
            try:
                self._when_ended(error, is_stopped=self.stop.is_set())
            except Exception as broken:  # an end that nobody could note is no clean one
                self.failure = self.failure or Failure(self.flow, broken, time.monotonic())
                self.log.exception("flow_failed", text="internal error, please report it")

    def _run(self) -> None:
        try:
            self._work(self.stop)
        except BaseException as error:  # the thread's edge: nothing above would see it
            # whatever failed first when the JVM was killed says nothing of it
            known = FlowError(JVM_HAS_ENDED) if has_jvm_ended() else error
            self.failure = Failure(self.flow, known, time.monotonic())
            if isinstance(known, ReplicationError):
                self.log.error("flow_failed", text=known)
            else:
                self.log.exception("flow_failed", text="internal error, please report it")
        else:
            self.log.info("flow_ended")


def wait_for_all(
    threads: Sequence[FlowThread],
    requests: StopRequests,
    locks: JobLocks,
    remind_seconds: float = REMIND_SECONDS,
    give_back: Callable[[Collection[Flow]], None] = lambda _flows: None,
    turn: Callable[[], None] = lambda: None,
) -> JobOutcome:
    """Waits until every flow has ended; stops those that a request names.

    While other flows still run, a failed flow is logged every *remind_seconds*. *give_back* ends
    the leases of flows that have ended, of as many as possible at once; *turn* is called each
    second, and asks the driver's JVM: without it, a flow that has not noticed that ends as well.
    The outcome is that of the failure that came first.
    """
    remind_at = time.monotonic() + remind_seconds
    alone_since: float | None = None
    endings = _Endings(threads, requests, locks, give_back)
    while running := [thread for thread in threads if thread.is_alive()]:
        alone_since = _turn(turn, alone_since)
        if alone_since and time.monotonic() >= alone_since + ALONE_SECONDS and has_jvm_ended():
            # the others have said so themselves, with their last figures
            for thread in running:
                thread.tell_end(FlowError(JVM_HAS_ENDED))
            break
        requested = requests.find()
        for thread in running:
            known, thread.catch_up.asked = thread.catch_up.asked, requests.catching_up(thread.flow)
            if thread.flow in requested and not thread.stop.is_set():
                thread.stop.set()
                kind: StopKind = "stop"
            elif thread.catch_up.asked - known:
                kind = "catchup"
            else:
                continue
            origin = requests.origin(thread.flow, kind)
            text = f"{STOPS[kind]} requested{f' by {origin}' if origin else ''}"
            thread.log.info("flow_stopping", text=text)
            thread.record(requests.events(thread.flow))
        running[0].join(POLL_SECONDS)  # its own end is noticed at once, that of others in a second
        endings.look()
        if time.monotonic() >= remind_at:
            remind_at = time.monotonic() + remind_seconds
            for thread in threads:
                if failure := thread.failure:
                    minutes = round((time.monotonic() - failure.at) / 60)
                    log.bind(thread.flow).error("flow_down", minutes=minutes, text=failure.error)
    endings.look()
    failures = [thread.failure for thread in threads if thread.failure]
    return min(failures, key=lambda failure: failure.at).outcome if failures else JobOutcome()


def _turn(turn: Callable[[], None], alone_since: float | None) -> float | None:
    """Returns since when *turn* has had no answer of the JVM; None if it has one."""
    try:
        turn()
    except (Py4JError, OSError):  # as in `has_jvm_ended`
        return alone_since or time.monotonic()
    return None


class _Endings:
    """What follows the ends of flows: leases, answers to requests, locks, in this order."""

    def __init__(
        self,
        threads: Sequence[FlowThread],
        requests: StopRequests,
        locks: JobLocks,
        give_back: Callable[[Collection[Flow]], None],
    ) -> None:
        self._threads = threads
        self._requests = requests
        self._locks = locks
        self._give_back = give_back
        self._first_at: float | None = None
        self._done: set[Flow] = set()

    def look(self) -> None:
        """Does it for the flows that have ended, unless others are about to."""
        running = [thread for thread in self._threads if thread.is_alive()]
        ended = [thread for thread in self._threads if thread not in running]
        new = [thread for thread in ended if thread.flow not in self._done]
        if new and self._is_due(running, new):
            self._give_back([thread.flow for thread in new])
            self._done |= {thread.flow for thread in new}
            self._first_at = None
        for thread in ended:
            if thread.flow in self._done:
                code = thread.failure.outcome.exit_code if thread.failure else 0
                self._requests.answer(thread.flow, code, thread.catch_up.done)
                self._locks.release(thread.flow)

    def _is_due(self, running: Sequence[FlowThread], new: Sequence[FlowThread]) -> bool:
        """Returns whether the flows that still run are no reason to wait any longer."""
        clock = time.monotonic()
        self._first_at = self._first_at or clock
        go_on = not all(thread.stop.is_set() for thread in running)
        is_awaited = any(thread.stop.is_set() or thread.failure for thread in new)
        return not running or (go_on and is_awaited) or clock - self._first_at > TOGETHER_SECONDS
