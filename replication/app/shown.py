"""What a process shows of its flows, from its first second to its last."""

import time
from collections.abc import Callable, Mapping, Sequence

from replication.app.claims import Launch
from replication.app.pulse import Pulse
from replication.figures.observation import FlowState, Observation
from replication.flows.board import Activity, FlowBoard
from replication.flows.context import FlowContext
from replication.model import Flow, runs

_STATES: Mapping[Activity, FlowState] = {
    "starting": "starting",
    "waiting": "waiting",
    "ended": "stopping",
}


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
        self._waits = launch.standby
        self._boards = dict[Flow, FlowBoard]()

    def begin(self, contexts: Sequence[FlowContext]) -> None:
        """Shows flows that are about to run, and watches their loops."""
        self._waits = False
        self._since = time.time()
        for context in contexts:
            self._boards[context.config.flow] = context.board
            self.pulse.watch(context.config.flow, context.board, context.outages)

    def look(self) -> Sequence[Observation]:
        """Returns an observation of each flow; for any thread."""
        return [self._known(flow) for flow in self._launch.names]

    def _known(self, flow: Flow) -> Observation:
        """Returns what is known of *flow* without a look at its clusters."""
        now, job = time.time(), self._launch.job
        board = self._boards.get(flow)
        if board is None:
            state: FlowState = "standby" if self._waits else "starting"
            return Observation(flow, now, state, self._since, runs=job)
        at = board.look()
        if not runs(job, "records"):
            return Observation(flow, now, "running", self._since, runs=job)
        mode = at.copying.mode
        going: FlowState = "draining" if mode == "drain" else "running"
        state = _STATES.get(at.state.activity, going)
        return Observation(flow, now, state, at.state.since, at.state.reason, mode=mode, runs=job)
