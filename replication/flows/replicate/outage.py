"""Waits while a cluster does not answer: as long as it takes, with one message a minute."""

import time
from threading import Event

from replication.config.tree import FlowConfig
from replication.errors import ClusterError
from replication.log import Log
from replication.state.tables import Tables

log = Log(__name__)

LONGEST_PAUSE_SECONDS = 4.0
"""Between two attempts. Records flow within ten seconds of a cluster's first answer, of which a new
generation takes a few."""

REMIND_SECONDS = 60.0


class Outage:
    """The outages of one flow, one after the other. An outage has a first and a last event.

    Args:
        tables: For the events.
        config: The flow.
        stop: Ends every wait.
    """

    def __init__(self, tables: Tables, config: FlowConfig, stop: Event) -> None:
        self._tables, self._flow, self._stop = tables, config.flow, stop
        self._attempts, self._since, self._logged_at = 0, 0.0, 0.0

    def wait(self, error: ClusterError) -> None:
        """Waits before the next attempt, longer each time."""
        self.note(error)
        self._stop.wait(min(LONGEST_PAUSE_SECONDS, pause_seconds(self._attempts)))

    def note(self, error: ClusterError) -> None:
        """Records that a cluster still does not answer: an event, then a line a minute."""
        now = time.monotonic()
        self._attempts += 1
        if self._attempts == 1:
            self._since = self._logged_at = now
            self._tables.record_event(
                self._flow,
                "unreachable",
                f"{error}\nThe flow waits and tries again until it is stopped",
                policy="retry",
            )
        elif now - self._logged_at >= REMIND_SECONDS:
            self._logged_at = now
            seconds = round(now - self._since)
            log.warning("still_unreachable", flow=self._flow, seconds=seconds, text=error)

    def end(self) -> None:
        """Says that the clusters answer."""
        if self._attempts:
            seconds = round(time.monotonic() - self._since)
            text = f"the clusters answer again after {seconds} s"
            self._tables.record_event(self._flow, "reachable", text, policy="retry")
        self._attempts = 0


def pause_seconds(attempts: int) -> float:
    """The pause after so many failed attempts: it doubles, up to half a minute."""
    return min(30.0, 2.0 ** min(attempts - 1, 10))
