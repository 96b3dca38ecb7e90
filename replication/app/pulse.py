"""Whether the loops of a process turn, for whoever starts a process again that hangs.

What waits for a cluster does not hang: a new start would wait as well. So a loop is watched only
while it should turn often, and not while its clusters are silent.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from replication.flows.board import FlowBoard
from replication.model import Flow

LONGEST_TURN: Final = 60.0
"""In seconds. A loop that attends running queries turns several times a second."""


class Answering(Protocol):
    """What knows of the clusters of a flow."""

    @property
    def are_answering(self) -> bool:
        """Whether both clusters answer."""


class Pulse:
    """The loops of one process.

    Args:
        ask: Asks what the main loop depends on, the driver's JVM; it returns only with an answer.
    """

    def __init__(self, ask: Callable[[], object] = lambda: None) -> None:
        self._ask = ask
        self._turned_at: float | None = None
        self._flows: dict[Flow, tuple[FlowBoard, Answering]] = {}

    def watch(self, flow: Flow, board: FlowBoard, clusters: Answering) -> None:
        """Watches the loop of *flow* as well."""
        self._flows[flow] = (board, clusters)

    def turn(self) -> None:
        """Notes that the main loop turns; it will turn again within a few seconds."""
        self._turned_at = self._turned_at or time.monotonic()
        self._ask()
        self._turned_at = time.monotonic()

    def rest(self) -> None:
        """Notes that the main loop is left: what follows may take long, such as Spark's start."""
        self._turned_at = None

    def find_hung(self) -> list[str]:
        """Returns what does not turn any more, a line each; empty if the process lives."""
        hung = [_line("the process", self._turned_at)]
        for flow, (board, clusters) in self._flows.items():
            if clusters.are_answering:
                hung.append(_line(f"the flow {flow}", board.turned_at))
        return [line for line in hung if line]


def _line(what: str, turned_at: float | None) -> str:
    seconds = 0.0 if turned_at is None else time.monotonic() - turned_at
    if seconds <= LONGEST_TURN:
        return ""
    return f"the loop of {what} has not turned for {seconds:.0f} s"
