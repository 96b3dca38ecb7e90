"""What an operator is shown of the flows of this process, while they run and when they end."""

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from replication.app.outcome import JobOutcome
from replication.figures.observation import Observation
from replication.flows.context import FlowContext
from replication.flows.publish.look import holders_of, last_look, look_at
from replication.flows.publish.publisher import Publishers
from replication.model import Flow, Job

LOOK_SECONDS: Final = 0.5
"""Between two looks for a change of state, which is shown at once."""


class View(AbstractContextManager["View"]):
    """Looks at the flows and publishes what is seen, for the block.

    Args:
        contexts: The flows.
        job: What the process runs.
    """

    def __init__(self, contexts: Sequence[FlowContext], job: Job) -> None:
        self._contexts = contexts
        self._job = job
        self._publishers = Publishers(
            [(context.config, partial(holders_of, context, job)) for context in contexts]
        )
        self._stop = threading.Event()
        self._shown: dict[Flow, tuple[object, float]] = {}
        self._ended = set[Flow]()
        self._latest = dict[Flow, Observation]()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)

    def __enter__(self) -> "View":  # noqa: PYI034 - typing has Self from 3.11
        """Begins to look."""
        self._publishers.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._stop.set()
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
        exit_code = JobOutcome.of(error).exit_code if error is not None else 0
        is_drained = context.config.mode == "drain" and not is_stopped
        observed = last_look(look_at(context, self._job), error, exit_code, is_drained=is_drained)
        self._ended.add(observed.flow)
        self._latest[observed.flow] = observed
        self._publishers.offer(observed)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            for context in self._contexts:
                observed = look_at(context, self._job)
                if observed.flow not in self._ended:
                    self._latest[observed.flow] = observed
                self._show(observed, context.config.status.interval_seconds)

    def _show(self, observed: Observation, interval: float) -> None:
        """Publishes *observed* if it says something new, or if a word is due."""
        now = time.monotonic()
        said = (observed.state, observed.reason, observed.generation, observed.epoch)
        shown, at = self._shown.get(observed.flow, (None, 0.0))
        if said != shown or now - at >= interval:
            self._shown[observed.flow] = (said, now)
            self._publishers.offer(observed)
