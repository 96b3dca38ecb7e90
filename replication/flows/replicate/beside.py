"""Work beside the replication loop, in a thread that only the end of its block ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError

from replication.errors import ReplicationError
from replication.flows.context import FlowContext
from replication.log_events import Event


@contextmanager
def beside(
    context: FlowContext,
    name: str,
    turn: Callable[[threading.Event], None],
    pauses: tuple[float, float],
    join_seconds: float,
) -> Iterator[None]:
    """Takes turns in a thread of its own during the block.

    Args:
        context: Of a flow whose lease is held.
        name: Of the thread.
        turn: Is given what is set once the block ends.
        pauses: The seconds before the first turn, and before each other one.
        join_seconds: How long the end of the block waits for a turn.
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
