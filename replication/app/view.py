"""What an operator is shown of the flows of this process, while they run and when they end."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final

from replication.app.figures_writer import FiguresWriter
from replication.app.outcome import JobOutcome
from replication.figures.observation import Observation
from replication.flows.context import FlowContext
from replication.flows.observe.clocks import Clocks
from replication.flows.observe.observer import Observer
from replication.flows.observe.sight import FlowSight
from replication.flows.publish.look import holders_of, last_look, look_at
from replication.flows.publish.publisher import Publishers
from replication.log import Log
from replication.model import Flow, Job
from replication.spark.reported_figures import ReportedFigures

log = Log(__name__)

LOOK_SECONDS: Final = 0.5
"""Between two looks for a change of state, which is shown at once."""


class View(AbstractContextManager["View"]):
    """Looks at the flows and publishes what is seen, for the block.

    Args:
        contexts: The flows.
        job: What the process runs.
        reported: What executors have reported of all flows.
        writer: Keeps the figures by the minute.
        beats: How often heartbeats are emitted to a cluster, in seconds by its alias.
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
            self._observer.watch(FlowSight(context, job, clocks.skew, beat))
        self._stop = threading.Event()
        self._shown: dict[Flow, tuple[object, float]] = {}
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
        """Says how a flow has ended, if this process had it until then.

        Args:
            context: The flow.
            error: What ended it; None for a clean end.
            is_stopped: Whether it was to stop.
        """
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
            self._look()

    def _look(self) -> None:
        try:
            self._look_at_all()
        except Exception:  # the thread's edge: replication goes on, and the next look may do better
            log.exception("status_not_published", text="please report this")

    def _look_at_all(self) -> None:
        for context in self._contexts:
            flow = context.config.flow
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
        said = (observed.state, observed.reason, observed.generation, observed.epoch)
        shown, at = self._shown.get(observed.flow, (None, 0.0))
        if said != shown or now - at >= interval:
            self._shown[observed.flow] = (said, now)
            self._publishers.offer(observed)
