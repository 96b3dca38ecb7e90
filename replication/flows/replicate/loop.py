"""The data loop: plan the topics, find the positions, run the query, keep the books; again.

Every turn of the loop is a generation. A changed set of partitions and a failed query alike end
one and begin the next, which finds its positions from the books and the target's log (design.md,
D3, D8).
"""

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import Literal

from replication.errors import ClusterError, GuardError, ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import TOO_LARGE, QueryError, explain, oversized_records
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.locate import find_positions
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.prepare import prepare_topics, topic_warnings
from replication.model import Mode, Position, TopicPartition
from replication.offsets.runs import ProgressGapError
from replication.state.lease import Lease, LeaseName, hold_lease
from replication.state.offset_rows import Anchor
from replication.state.tables import now
from replication.topics.topic_plan import TopicPlan

log = logging.getLogger(__name__)

Ending = Literal["stopped", "drained", "changed"]

POLL_SECONDS = 0.5
FAILURES_IN_A_ROW = 5
LONGEST_PAUSE_SECONDS = 30


def replicate(context: FlowContext, choose_mode: Callable[[TopicPlan], Mode], stop: Event) -> None:
    """Replicates one flow until *stop* is set or, in drain mode, all is across.

    Raises:
        LeaseError: Another process runs the flow.
        GuardError: Going on would lose or repeat records.
        FlowError: The query failed, and starting it again did not help.
        ClusterError: A cluster does not answer.
        StateError: The books cannot be read or written.
    """
    config = context.config
    with hold_lease(context.tables, LeaseName(config.flow)) as lease:
        _FlowLoop(context, choose_mode, stop, lease).run()


class _FlowLoop:
    """One flow's state over its generations."""

    def __init__(
        self,
        context: FlowContext,
        choose_mode: Callable[[TopicPlan], Mode],
        stop: Event,
        lease: Lease,
    ) -> None:
        self._context, self._config = context, context.config
        self._choose_mode, self._stop, self._lease = choose_mode, stop, lease
        self._plan: TopicPlan | None = None
        self._warned: set[str] = set()
        self._failures = 0
        self._books = MapWriter(context)
        self._number = self._books.last_generation

    def run(self) -> None:
        ending: Ending = "changed"
        while ending == "changed":
            self._number += 1
            try:
                ending = self._generation()
            except (QueryError, ProgressGapError, ClusterError) as error:
                self._pause_or_raise(error)
        self._record_tail()

    def _generation(self) -> Ending:
        config = self._config
        plan = prepare_topics(config, self._context.source, self._context.target)
        if not plan.partitions:
            return self._wait_for_topics()
        mode = self._choose_mode(plan)
        if self._stop.is_set():
            return "stopped"
        self._plan = plan
        self._log_warnings(plan)
        positions = self._positions(plan)
        self._record_topics(plan)
        generation = Generation(
            self._context.spark,
            self._books,
            config,
            plan,
            positions,
            number=self._number,
            mode=mode,
        )
        log.info(
            "generation started flow=%s number=%d mode=%s topics=%d partitions=%d",
            config.flow, self._number, mode, len(plan.topics), len(plan.partitions),
        )  # fmt: skip
        try:
            return self._attend(generation)
        finally:
            self._remember(plan, generation.close())

    def _record_topics(self, plan: TopicPlan) -> None:
        """Appends the topics of this generation to the table ``topics``: one row each."""
        rows = (
            {
                "flow": str(self._config.flow),
                "generation": self._number,
                "topic": topic,
                "remote_topic": remote,
                "topic_id": plan.source_ids[topic],
                "partitions": sum(tp.topic == topic for tp in plan.partitions),
                "at": now(),
            }
            for topic, remote in plan.topics.items()
        )
        self._context.tables.append("topics", rows)

    def _log_warnings(self, plan: TopicPlan) -> None:
        """Logs what the target would not keep, once per topic."""
        for text in topic_warnings(plan, self._context.source, self._context.target):
            if text not in self._warned:
                self._warned.add(text)
                log.warning('flow=%s event=target_keeps_less text="%s"', self._config.flow, text)

    def _attend(self, generation: Generation) -> Ending:
        """Keeps the books of a running query until something ends it."""
        refresh_at = time.monotonic() + self._config.refresh_topics_interval_seconds
        while True:
            stopped = self._stop.wait(POLL_SECONDS)
            if generation.record_progress():
                self._failures = 0
            self._lease.renew()
            if not generation.is_running:
                failure = generation.failure()
                if failure is not None:
                    raise explain(self._config, failure) from failure
                return "drained"
            if stopped:
                return "stopped"
            if self._config.refresh_topics_enabled and time.monotonic() >= refresh_at:
                if self._has_changed(generation.plan):
                    return "changed"
                refresh_at = time.monotonic() + self._config.refresh_topics_interval_seconds

    def _has_changed(self, plan: TopicPlan) -> bool:
        try:
            now = prepare_topics(self._config, self._context.source, self._context.target)
        except ClusterError as error:
            log.warning("flow=%s topics were not refreshed: %s", self._config.flow, error)
            return False
        if now.fingerprint == plan.fingerprint:
            return False
        log.info("flow=%s the set of topics or partitions changed", self._config.flow)
        return True

    def _wait_for_topics(self) -> Ending:
        """Nothing matches yet: in drain mode that is the end, otherwise look again later."""
        config = self._config
        log.warning("flow=%s no topic of %s matches", config.flow, config.flow.source)
        if config.mode == "drain":
            return "drained"
        self._lease.renew()
        stopped = self._stop.wait(config.refresh_topics_interval_seconds)
        return "stopped" if stopped else "changed"

    def _positions(self, plan: TopicPlan) -> dict[TopicPartition, Position]:
        positions = find_positions(self._context, plan, self._books, self._number)
        self._remember(plan, positions)
        return positions

    def _remember(self, plan: TopicPlan, positions: dict[TopicPartition, Position]) -> None:
        for tp, position in positions.items():
            self._books.anchors[tp] = Anchor(position, plan.source_ids[tp.topic])

    def _pause_or_raise(self, error: ReplicationError) -> None:
        """Waits before the next generation, or raises what a restart cannot mend."""
        self._failures += 1
        first_start = self._plan is None and isinstance(error, ClusterError)
        final = isinstance(error, QueryError) and error.is_final
        if final or first_start or self._failures >= FAILURES_IN_A_ROW or self._stop.is_set():
            raise self._with_oversized_records(error) from error
        pause = min(LONGEST_PAUSE_SECONDS, 2**self._failures)
        log.warning("flow=%s restarts in %d s: %s", self._config.flow, pause, error)
        self._context.tables.record_event(
            self._config.flow, "restarted", str(error), policy="retry"
        )
        self._stop.wait(pause)

    def _with_oversized_records(self, error: ReplicationError) -> ReplicationError:
        """*error* with the offsets of the records that the target refused, if it is about size."""
        if self._plan is None or TOO_LARGE not in str(error):
            return error
        positions = self._positions(self._plan)
        lines = oversized_records(self._context, self._plan, positions)
        text = "".join([str(error), *(f"\n  - {line}" for line in lines)])
        return QueryError(text, is_final=True)

    def _record_tail(self) -> None:
        """*error* with the offsets of records too large for the target, if it is about size."""
        if self._plan is None:
            return
        try:
            self._positions(self._plan)
        except (ClusterError, GuardError) as error:
            log.warning(
                "flow=%s the last batch is not booked; the next start will: %s",
                self._config.flow,
                error,
            )
