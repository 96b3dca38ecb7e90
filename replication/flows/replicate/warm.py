"""Keeps a standby warm: what a takeover needs is loaded, connected and known before it.

While another process has the flow, this one does what a start does and nobody else sees: it reads
the tables, lists and describes the topics of both clusters, asks where the logs end, and runs the
flow's query over no records. What must be true when the flow starts (positions, settings, what is
in flight) is read again with the lease: here it only loads classes and opens connections.
"""

import threading
import time
from contextlib import AbstractContextManager
from typing import Final

from py4j.protocol import Py4JError

from replication.errors import ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.rehearse import rehearse
from replication.state.spark_reader import reader_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import look

POLL_SECONDS: Final = 0.5
REFRESH_SECONDS: Final = 300.0
"""Brokers close what is idle for ten minutes (``connections.max.idle.ms``)."""


class Warmth(AbstractContextManager["Warmth"]):
    """Keeps one flow ready to start, in a thread of its own, until `end` or the end of the block.

    Args:
        context: The flow, which another process may have.
    """

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._over = threading.Event()
        self._has_rehearsed = False
        self._is_said: bool | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"{context.config.flow} warm", daemon=True
        )

    def __enter__(self) -> "Warmth":  # noqa: PYI034 - typing has Self from 3.11
        """Begins, if the process stands by and the flow is to run for long."""
        if self._context.standby and self._context.config.mode != "drain":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.end()

    def end(self) -> None:
        """Begins nothing more: this process has the flow now."""
        self._over.set()

    def _run(self) -> None:
        due = 0.0
        while not self._over.wait(POLL_SECONDS):
            if self._context.outages.is_standby and time.monotonic() >= due:
                self._warm_up()
                due = time.monotonic() + REFRESH_SECONDS

    def _warm_up(self) -> None:
        """Does it once, and says whether the flow is ready, if that is new."""
        began, said, log = time.monotonic(), self._is_said, self._context.log
        try:
            plan = self._look()
        except (ReplicationError, Py4JError) as error:
            self._is_said = False
            if said is not False and not self._over.is_set():
                log.warning("standby_not_ready", text=error)
        except Exception:  # the thread's edge: a takeover does without
            if not self._over.is_set():  # else the session may have ended
                log.exception("standby_not_ready", text="internal error, please report it")
        else:
            self._is_said = True
            if said is not True and plan is not None:
                seconds = round(time.monotonic() - began, 1)
                log.info("standby_ready", seconds=seconds, partitions=len(plan.partitions))

    def _look(self) -> TopicPlan | None:
        """Looks at tables and clusters; returns the topics, None if the flow has started."""
        context, flow = self._context, self._context.config.flow
        context.requests.read_changes(flow)
        reader_of(context.tables).offsets(flow).progress()
        plan = look(context.config, context.source, context.target)
        ends = context.source.log_ends(plan.partitions, context.config.isolation)
        if self._over.is_set():
            return None
        if not self._has_rehearsed:
            rehearse(context, plan, ends)
        self._has_rehearsed = True
        return plan
