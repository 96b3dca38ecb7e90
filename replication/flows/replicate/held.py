"""Holds the lease of a flow's records: warm before it is held, and silent after it is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from replication.flows.context import FlowContext
from replication.flows.replicate.warm import Warmth
from replication.positions.settle import abandon_in_flight
from replication.state.lease import Late, Lease, LeaseLostError


@contextmanager
def held_records(context: FlowContext, stop: Event, note: Late) -> Iterator[Lease | None]:
    """Holds the lease of the records for the block, as `FlowContext.hold` does.

    A standby keeps warm while it waits. If the block ends because the lease was lost, executors
    give up what they have in flight.

    Args:
        context: The flow.
        stop: Ends the wait for the lease; the block then gets None.
        note: Is told that the target is silent; a drain fails instead.
    """
    when_late = None if context.config.mode == "drain" else note
    holding = context.hold("", stop, standby=context.standby, when_late=when_late)
    with Warmth(context) as warmth, holding as lease:
        warmth.end()
        try:
            yield lease
        except LeaseLostError:
            abandon_in_flight(context.started_spark, context.config.flow)
            raise
