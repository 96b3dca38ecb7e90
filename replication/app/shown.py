"""What a process shows of its flows over HTTP, from its first second to its last."""

import time
from collections.abc import Callable, Sequence

from replication.app.claims import Launch
from replication.app.pulse import Pulse
from replication.figures.observation import FlowState, Observation
from replication.flows.context import FlowContext
from replication.flows.publish.look import look_at
from replication.model import Flow

Latest = Callable[[Flow], Observation | None]
"""Returns the newest observation of a flow; None before the first."""


class Shown:
    """The newest observation of each flow of the process.

    Before Spark runs nobody observes; then a flow is `starting` or `standby`, which is all that is
    known of it.

    Args:
        launch: What the process runs.
        ask: Asks the driver's JVM; see `Pulse`.
    """

    def __init__(self, launch: Launch, ask: Callable[[], object] = lambda: None) -> None:
        self.pulse = Pulse(ask)
        self._launch = launch
        self._since = time.time()
        self._contexts = dict[Flow, FlowContext]()
        self._has_begun = False
        self._latest: Latest = lambda _flow: None

    def begin(self, contexts: Sequence[FlowContext], latest: Latest) -> None:
        """Shows the *latest* of flows that are about to run, and watches their loops."""
        self._since = time.time()
        self._has_begun = True
        self._latest = latest
        self._contexts = {context.config.flow: context for context in contexts}
        for context in contexts:
            self.pulse.watch(context.config.flow, context.board, context.outages)

    def look(self) -> Sequence[Observation]:
        """Returns an observation of each flow; for any thread."""
        return [self._latest(flow) or self._unseen(flow) for flow in self._launch.names]

    def _unseen(self, flow: Flow) -> Observation:
        """Returns what is known of *flow* where nobody observes it (yet)."""
        if (context := self._contexts.get(flow)) is not None:
            return look_at(context, self._launch.job)
        state: FlowState = "standby" if self._launch.standby else "starting"
        if self._has_begun:  # heartbeats alone have no context
            state = "running"
        return Observation(flow, time.time(), state, self._since, runs=self._launch.job)
