"""Writes the figures of the flows to the table ``figures``, behind and together.

One commit every few minutes has the rows of all flows that this process owns. What cannot be
written waits for the next one, up to a bound: figures are worth no record and no memory.
"""

import threading
import time
from collections import defaultdict, deque
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import ReplicationError
from replication.figures.minutes import Minute, Minutes
from replication.figures.observation import Observation
from replication.log import Log
from replication.model import Flow
from replication.state.figures_table import FIGURES, rows_of
from replication.state.tables import Tables

log = Log(__name__)

EACH_SECONDS: Final = 300.0
MOST_WAITING: Final = 50_000
"""Rows that wait for a table that cannot be written; the oldest go first."""

LAST_SECONDS: Final = 10.0


class FiguresWriter:
    """A subscriber of observations, called by one thread.

    Args:
        tables: Of the state directory.
        each_seconds: From one commit to the next.
    """

    def __init__(self, tables: Tables, each_seconds: float = EACH_SECONDS) -> None:
        self._tables = tables
        self._each_seconds = each_seconds
        self._minutes = defaultdict[Flow, Minutes](Minutes)
        self._waiting = deque[Minute](maxlen=MOST_WAITING)
        self._due = time.monotonic() + each_seconds
        self._writing = threading.Lock()
        self._has_failed = False

    def __call__(self, observed: Observation) -> None:
        """Takes an observation; standbys and flows that have ended say nothing of now.

        Neither does a process that does not replicate the flow's records.
        """
        owner = observed.owner
        if owner is None or owner.part != "records" or observed.ended_at is not None:
            return
        self._waiting.extend(self._minutes[observed.flow].add(observed))
        if self._waiting and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._each_seconds
            threading.Thread(target=self._write, name="figures", daemon=True).start()

    def close(self) -> None:
        """Writes what is left; gives up after a while."""
        for minutes in list(self._minutes.values()):  # the observer may still be at it
            self._waiting.extend(minutes.end())
        writer = threading.Thread(target=self._write, name="last figures", daemon=True)
        writer.start()  # another one may have in hand what it will not be able to write
        writer.join(LAST_SECONDS)

    def _write(self) -> None:
        with self._writing:
            some = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not some:
                return
            try:
                self._tables.append(FIGURES, rows_of(some))
            except (ReplicationError, Py4JError) as error:
                newer = list(self._waiting)
                self._waiting.clear()
                self._waiting.extend([*some, *newer])  # the oldest go first
                if not self._has_failed:
                    log.warning("figures_not_written", text=error)
                self._has_failed = True
            except Exception:  # the thread's edge: nothing above would see it
                log.exception("figures_not_written", text="internal error, please report it")
            else:
                self._has_failed = False
