"""Maintains the tables while this process runs the flow, without holding the flow up."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import ReplicationError
from replication.flows.context import FlowContext
from replication.log_events import Event
from replication.state.maintenance import Maintenance
from replication.state.tables import now


@contextmanager
def beside(
    context: FlowContext,
    name: str,
    turn: Callable[[threading.Event], None],
    pauses: tuple[float, float],
    join_seconds: float,
) -> Iterator[None]:
    """Takes turns in a thread of its own during the block.

    *turn* is given what is set once the block ends. *pauses* are the seconds before the first turn,
    and before each other one; the end of the block waits *join_seconds* for a turn.
    """
    over = threading.Event()

    def run() -> None:
        context.tables.use_background()
        pause, later = pauses
        while not over.wait(pause):
            turn(over)
            pause = later

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(join_seconds)


@contextmanager
def surviving(context: FlowContext, event: Event) -> Iterator[None]:
    """Logs what fails in the block as *event*: a defect must not end a thread for good."""
    try:
        yield
    except (ReplicationError, Py4JError) as error:
        context.log.warning(event, text=error)
    except Exception:
        context.log.exception(event, text="internal error, please report it")


FIRST_SECONDS: Final = 300.0
"""After the start, which has better things to do."""

CHECK_SECONDS: Final = 3600.0
JOIN_SECONDS: Final = 10.0

_one_flow_at_a_time = threading.Lock()


@contextmanager
def maintained_tables(
    context: FlowContext,
    stop: threading.Event,
    first_seconds: float = FIRST_SECONDS,
    clock: Callable[[], datetime] = now,
) -> Iterator[None]:
    """Maintains the tables during the block when that is due; for a drain, after the block.

    A failure is logged, and what was not done is still due.
    """
    if context.config.mode == "drain":
        yield
        _maintain(context, stop, clock=clock)
        return
    pauses = first_seconds, CHECK_SECONDS
    turn = partial(_maintain, context, clock=clock)
    with beside(context, "maintenance", turn, pauses, JOIN_SECONDS):
        yield


def _maintain(
    context: FlowContext, over: threading.Event, *, clock: Callable[[], datetime]
) -> None:
    """Maintains the tables once, if that is due; ends between two steps if *over*."""
    config = context.config
    maintenance = Maintenance(context.tables, config.flow, config.state)
    with surviving(context, "maintenance_failed"), _one_flow_at_a_time:
        if not over.is_set() and maintenance.is_due(clock()):
            maintenance.run(clock(), over.is_set)
