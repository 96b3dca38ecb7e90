"""What an operator is shown of the flows of this process, while they run and when they end."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final

from py4j.protocol import Py4JError

from replication.app.run_history import JobOutcome
from replication.errors import ReplicationError
from replication.figures.minutes import Minute, Minutes
from replication.figures.observation import Observation
from replication.flows.context import FlowContext
from replication.flows.observe.clocks import Clocks
from replication.flows.observe.flow_observer import FlowObserver
from replication.flows.observe.observer import Observer
from replication.flows.publisher import Publishers, holders_of, last_look, look_at
from replication.log import Log
from replication.model import Flow, Job
from replication.spark.acknowledged import ReportedFigures
from replication.state.figures_table import FIGURES, rows_of
from replication.state.tables import Tables

log = Log(__name__)

# Writes the figures of the flows to the table ``figures``, behind and together.
#
# One commit every few minutes has the rows of all flows that this process owns. What cannot be
# written waits for the next one, up to a bound: figures are worth no record and no memory.

EACH_SECONDS: Final = 300.0
MOST_WAITING: Final = 50_000
"""Rows that wait for a table that cannot be written; the oldest go first."""

LAST_SECONDS: Final = 10.0


class FiguresWriter:
    """A subscriber of observations, called by one thread; commits every *each_seconds*."""

    def __init__(self, tables: Tables, each_seconds: float = EACH_SECONDS) -> None:
        self._tables = tables
        self._each_seconds = each_seconds
        self._minutes = defaultdict[Flow, Minutes](Minutes)
        self._waiting = deque[Minute](maxlen=MOST_WAITING)
        self._due = time.monotonic() + each_seconds
        self._writing = threading.Lock()
        self._has_failed = False

    def __call__(self, observed: Observation) -> None:
        """Takes an observation; standbys and flows that have ended say nothing of now.

        Neither does a process that does not replicate the flow's records.
        """
        owner = observed.owner
        if owner is None or owner.part != "records" or observed.ended_at is not None:
            return
        self._waiting.extend(self._minutes[observed.flow].add(observed))
        if self._waiting and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._each_seconds
            threading.Thread(target=self._write, name="figures", daemon=True).start()

    def close(self) -> None:
        """Writes what is left; gives up after a while."""
        for minutes in list(self._minutes.values()):  # the observer may still be at it
            self._waiting.extend(minutes.end())
        writer = threading.Thread(target=self._write, name="last figures", daemon=True)
        writer.start()  # another one may have in hand what it will not be able to write
        writer.join(LAST_SECONDS)

    def _write(self) -> None:
        with self._writing:
            some = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not some:
                return
            try:
                self._tables.append(FIGURES, rows_of(some))
            except (ReplicationError, Py4JError) as error:
                newer = list(self._waiting)
                self._waiting.clear()
                self._waiting.extend([*some, *newer])  # the oldest go first
                if not self._has_failed:
                    log.warning("figures_not_written", text=error)
                self._has_failed = True
            except Exception:  # the thread's edge: nothing above would see it
                log.exception("figures_not_written", text="internal error, please report it")
            else:
                self._has_failed = False


LOOK_SECONDS: Final = 0.5
"""Between two looks for a change of state, which is shown at once."""


class View(AbstractContextManager["View"]):
    """Looks at the flows and publishes what is seen, for the block.

    *reported* is what executors report of all flows; *beats* is how often heartbeats are emitted to
    a cluster, in seconds by its alias.
    """

    def __init__(
        self,
        contexts: Sequence[FlowContext],
        job: Job,
        reported: ReportedFigures,
        writer: FiguresWriter,
        beats: Mapping[str, float],
    ) -> None:
        self._contexts = contexts
        self._job = job
        # of a flow whose interval is 0 no more is known than what its own parts have noted
        measured = [context for context in contexts if context.config.status.interval_seconds]
        intervals = [context.config.status.interval_seconds for context in measured]
        self._publishers = Publishers(
            [(context.config, partial(holders_of, context, job)) for context in measured]
        )
        clocks = Clocks(self._publishers.skew)
        self._observer = Observer(min(intervals, default=0), reported, clocks)
        self._writer = writer
        self._observer.subscribe(writer)
        for context in measured:
            beat = beats.get(context.config.source.alias)
            self._observer.watch(FlowObserver(context, job, clocks.skew, beat))
        self._stop = threading.Event()
        self._shown: dict[Flow, tuple[object, float]] = {}
        self._left_out: dict[Flow, tuple[object, object]] = {}
        self._ended = set[Flow]()
        self._latest = dict[Flow, Observation]()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)

    def __enter__(self) -> "View":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to look."""
        self._publishers.__enter__()
        self._observer.begin()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._stop.set()
        self._observer.close()
        self._writer.close()
        self._publishers.__exit__()

    def latest(self, flow: Flow) -> Observation | None:
        """Returns the newest observation of *flow*, its last word in the end; for any thread."""
        return self._latest.get(flow)

    def end(self, context: FlowContext, error: BaseException | None, *, is_stopped: bool) -> None:
        """Says how a flow has ended, if this process had it until then; cleanly without *error*."""
        flow = context.config.flow
        exit_code = JobOutcome.of(error).exit_code if error is not None else 0
        is_drained = context.config.mode == "drain" and not is_stopped
        known = self._with(self._observer.end(flow), look_at(context, self._job))
        observed = last_look(known, error, exit_code, is_drained=is_drained)
        self._ended.add(flow)
        self._latest[flow] = observed
        self._publishers.offer(observed)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self._look()
            except Exception:  # noqa: PERF203 - the thread's edge: the next look may do better
                log.exception("status_not_published", text="please report this")

    def _look(self) -> None:
        for context in self._contexts:
            flow, metrics = context.config.flow, context.metrics.look()
            left_out = metrics.aside, metrics.gone
            before, self._left_out[flow] = self._left_out.get(flow), left_out
            if before not in (None, left_out):  # which is said at once
                self._observer.glance(flow)
            observed = self._with(self._observer.latest(flow), look_at(context, self._job))
            if flow not in self._ended:
                self._latest[flow] = observed
            self._show(observed, context.config.status.interval_seconds)

    @staticmethod
    def _with(measured: Observation | None, now: Observation) -> Observation:
        """Returns what was *measured*, with what the flow does *now*."""
        if measured is None:
            return now
        return replace(
            measured,
            state=now.state,
            since=now.since,
            reason=now.reason,
            owner=now.owner,
            epoch=now.epoch,
            mode=now.mode,
            generation=now.generation,
        )

    def _show(self, observed: Observation, interval: float) -> None:
        """Publishes *observed* if it says something new, or if a word is due."""
        now = time.monotonic()
        held = [(one.code, one.topic) for one in observed.conditions]
        said = (observed.state, observed.reason, observed.generation, observed.epoch, held)
        shown, at = self._shown.get(observed.flow, (None, 0.0))
        if said != shown or now - at >= interval:
            self._shown[observed.flow] = (said, now)
            self._publishers.offer(observed)
