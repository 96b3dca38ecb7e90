"""What one flow may do next to the others, as whoever runs them all decides."""

from collections.abc import Callable
from dataclasses import dataclass

from replication.model import Mode
from replication.upkeep.prepare import Reserve, reserve_all


def _one() -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Admitted:
    """The decisions for one flow.

    Args:
        reserve: The topics of the plan that it does not name are the flow's until the next call.
        mode: The mode for what was reserved last; waits for task slots and may raise `FlowError`.
        mode_now: Where the mode is chosen automatically: the mode that fits the task slots of now.
            A generation ends if that is another one.
        share: With the shared source, how many slots the flow may hold in Real-Time Mode.
        sharing: How many flows with that source have tasks for as long as they run.
    """

    reserve: Reserve
    mode: Callable[[], Mode]
    mode_now: Callable[[], Mode] | None = None
    share: Callable[[], int] | None = None
    sharing: Callable[[], int] = _one


def alone(mode: Mode) -> Admitted:
    """Returns what is admitted for a flow that runs in *mode*, without any other flow."""
    return Admitted(reserve_all, lambda: mode)
