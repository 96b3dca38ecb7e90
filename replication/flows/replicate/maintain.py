"""Maintains the tables while this process runs the flow, without holding the flow up."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.replicate.beside import beside, surviving
from replication.state.maintenance import Maintenance
from replication.state.tables import now

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

    Args:
        context: Of a flow whose lease is held.
        stop: Of the flow.
        first_seconds: Before the first look whether it is due.
        clock: Tells the time.
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
