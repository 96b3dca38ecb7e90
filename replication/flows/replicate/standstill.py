"""Waits while a flow cannot go on, as long as it takes; says so where its clusters answer."""

import time
from threading import Event
from typing import Final

from replication.backoff import Backoff
from replication.errors import ReplicationError
from replication.flows.context import FlowContext

PAUSES: Final = Backoff(first_seconds=1.0, longest_seconds=4.0)
"""Between two attempts. Records flow within ten seconds of a cluster's first answer; a new
generation takes a few of them."""

SAID_AFTER_SECONDS: Final = 8.0
"""Elections and the like are over by then. A cluster that is silent is said by its watch."""

REMIND_SECONDS: Final = 60.0


class Standstill:
    """The attempts of one flow that fail for as long as something lasts, one after the other.

    Args:
        context: The flow.
        stop: Ends every wait.
    """

    def __init__(self, context: FlowContext, stop: Event) -> None:
        self._context = context
        self._stop = stop
        self._attempts = 0
        self._since = 0.0
        self._said_at = 0.0

    def wait(self, error: ReplicationError) -> None:
        """Waits before the next attempt: longer each time, and not beyond an outage's end."""
        self.note(error)
        self._context.outages.pause(PAUSES.after(self._attempts), self._stop)

    def note(self, error: ReplicationError) -> None:
        """Records that the flow still stands: an event, then a line a minute."""
        now = time.monotonic()
        self._attempts += 1
        if self._attempts == 1:
            self._since = now
        flow, seconds = self._context.config.flow, round(now - self._since)
        if not self._context.outages.are_answering:
            return
        if self._said_at and now - self._said_at >= REMIND_SECONDS:
            self._said_at = now
            self._context.log.warning("still_waiting", seconds=seconds, text=error)
        elif not self._said_at and now - self._since >= SAID_AFTER_SECONDS:
            self._said_at = now
            text = f"{error}\nThe flow waits and tries again until it is stopped"
            self._context.tables.record_event(flow, "waiting", text, reaction="retry")

    def end(self) -> None:
        """Says that the flow goes on."""
        if self._said_at:
            seconds = round(time.monotonic() - self._since)
            text = f"the flow goes on after {seconds} s"
            self._context.tables.record_event(
                self._context.config.flow, "resumed", text, reaction="retry"
            )
        self._attempts = 0
        self._said_at = 0.0
