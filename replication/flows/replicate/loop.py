"""The replication loop: prepare topics, find positions, run the query, record progress; repeat.

Each round of the loop is a generation. It ends when the set of partitions changes or the query
fails; the next one finds its positions in the offset map and the target's log.
"""

import time
from collections.abc import Callable
from threading import Event
from typing import Literal

from replication.errors import ClusterError, GuardError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.flows.replicate.choose import TopicChoice
from replication.flows.replicate.failures import (
    TOO_LARGE,
    QueryError,
    explain,
    spark_errors,
)
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.idle import IdlePartitions
from replication.flows.replicate.locate import find_positions
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.outage import Outage
from replication.flows.replicate.oversized import oversized_records
from replication.flows.replicate.prepare import topic_warnings
from replication.kafka.diagnosis import CallError
from replication.log import Log
from replication.model import Mode, Position, TopicPartition
from replication.offsets.runs import ProgressGapError
from replication.state.lease import Lease, LeaseName, hold_lease
from replication.state.offset_rows import Anchor
from replication.state.tables import now
from replication.topics.topic_plan import TopicPlan

log = Log(__name__)

Admit = Callable[[TopicPlan], Mode]
"""Checks that a plan may run next to those of the other flows, and chooses its mode."""

Ending = Literal["stopped", "drained", "changed"]

POLL_SECONDS = 0.5
FAILURES_IN_A_ROW = 5
LONGEST_PAUSE_SECONDS = 30


def replicate(context: FlowContext, admit: Admit, stop: Event) -> ReplicationError | None:
    """Replicates one flow until *stop* is set or, in drain mode, everything is copied.

    A topic that cannot be replicated is set aside and does not stop the others.

    Args:
        context: The flow.
        admit: Called with the plan of each generation; may raise `GuardError`.
        stop: Ends the flow.

    Returns:
        The error of the topics that a drain has set aside; None if everything is copied.

    Raises:
        LeaseError: Another process runs the flow.
        GuardError: Continuing would lose or repeat records of all topics, or *admit* rejected the
            plan.
        FlowError: The query failed, and restarting it did not help.
        ClusterError: A cluster does not answer.
        StateError: The state directory cannot be read or written.
    """
    config = context.config
    with hold_lease(context.tables, LeaseName(config.flow)) as lease:
        try:
            return _FlowLoop(context, admit, stop, lease).run()
        finally:
            context.live_map.detach()


class _FlowLoop:
    """What one flow keeps from generation to generation."""

    def __init__(self, context: FlowContext, admit: Admit, stop: Event, lease: Lease) -> None:
        self._context, self._config = context, context.config
        self._admit, self._stop, self._lease = admit, stop, lease
        self._plan: TopicPlan | None = None
        self._warned: set[str] = set()
        self._failures = 0
        self._map_writer = MapWriter(context)
        self._number = self._map_writer.last_generation
        self._choice = TopicChoice(context, self._map_writer.anchors)
        self._outage = Outage(context.tables, self._config, lease, stop)

    def run(self) -> ReplicationError | None:
        ending: Ending = "changed"
        while ending == "changed":
            if self._stop.is_set():
                ending = "stopped"
                break
            self._number += 1
            try:
                ending = self._run_generation()
            except (QueryError, ProgressGapError, ClusterError, StateError) as error:
                self._recover(error)
        self._record_last_batch(ending)
        return self._choice.error() if ending == "drained" else None

    def _run_generation(self) -> Ending:
        config = self._config
        plan = self._choice.plan()
        if not plan.partitions:
            return self._wait_for_topics()
        mode = self._admit(plan)
        if self._stop.is_set():
            return "stopped"
        self._plan = plan
        self._log_warnings(plan)
        positions = self._find_positions(plan)
        plan = self._plan
        if not plan.partitions:
            return "changed"
        self._outage.end()
        self._choice.accept(plan)
        self._record_topics(plan)
        generation = Generation.start(
            self._context, self._map_writer, plan, positions, number=self._number, mode=mode
        )
        log.info(
            "generation_started", flow=config.flow, generation=self._number, mode=mode,
            topics=len(plan.topics), partitions=len(plan.partitions),
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
                log.warning("target_keeps_less", flow=self._config.flow, text=text)

    def _attend(self, generation: Generation) -> Ending:
        """Records a running query's progress until something ends it."""
        refresh_at = time.monotonic() + self._config.refresh_topics_interval_seconds
        idle = IdlePartitions(self._context, generation.plan)
        while True:
            stopped = self._stop.wait(POLL_SECONDS)
            if generation.record_progress():
                self._failures = 0
            self._lease.renew()
            if not generation.is_running:
                failure = generation.failure()
                if failure is not None:
                    raise explain(self._config.flow, failure) from failure
                return "drained"
            if stopped:
                return "stopped"
            is_due = self._config.refresh_topics_enabled and time.monotonic() >= refresh_at
            if is_due or self._choice.has_retry():
                if self._has_changed(generation.plan):
                    return "changed"
                self._skip_markers(idle, generation)
                refresh_at = time.monotonic() + self._config.refresh_topics_interval_seconds

    def _skip_markers(self, idle: IdlePartitions, generation: Generation) -> None:
        try:
            idle.skip(generation.pending)
        except ClusterError as error:
            log.warning("idle_check_failed", flow=self._config.flow, text=error)

    def _has_changed(self, plan: TopicPlan) -> bool:
        try:
            refreshed = self._choice.plan()
        except ClusterError as error:
            self._choice.postpone()
            log.warning("topic_refresh_failed", flow=self._config.flow, text=error)
            return False
        if refreshed.fingerprint == plan.fingerprint:
            return False
        log.info("topics_changed", flow=self._config.flow)
        return True

    def _wait_for_topics(self) -> Ending:
        """Ends a drain; in the other modes waits until the next topic refresh is due."""
        config = self._config
        log.warning("no_topics", flow=config.flow, text=f"no topic of {config.flow.source} matches")
        if config.mode == "drain":
            return "drained"
        self._lease.renew()
        stopped = self._stop.wait(config.refresh_topics_interval_seconds)
        return "stopped" if stopped else "changed"

    def _find_positions(self, plan: TopicPlan) -> dict[TopicPartition, Position]:
        """The positions of *plan*'s topics; those that have none are no longer in the plan."""
        with spark_errors(self._config.flow):
            located = find_positions(self._context, plan, self._map_writer, self._number)
        self._remember(plan, located.positions)
        self._plan = self._choice.refuse(plan, located.refused).without(located.gone)
        return located.positions

    def _remember(self, plan: TopicPlan, positions: dict[TopicPartition, Position]) -> None:
        for tp, position in positions.items():
            self._map_writer.anchors[tp] = Anchor(position, plan.source_ids[tp.topic])

    def _recover(self, error: ReplicationError) -> None:
        """Does what lets the next generation succeed; raises *error* if nothing can."""
        if isinstance(error, CallError):
            if self._choice.reject(error.rejected, self._plan):
                return
            has_run = self._plan is not None  # then even a rejected password may be restored
            is_worth_waiting = error.is_temporary or has_run
            if self._config.mode != "drain" and is_worth_waiting and not self._stop.is_set():
                self._failures = 0
                self._outage.wait(error)
                return
        self._pause_or_raise(error)

    def _pause_or_raise(self, error: ReplicationError) -> None:
        """Waits before the next generation; raises *error* if a restart cannot help."""
        self._failures += 1
        first_start = self._plan is None and isinstance(error, ClusterError)
        final = isinstance(error, QueryError) and error.is_final
        if final or first_start or self._failures >= FAILURES_IN_A_ROW or self._stop.is_set():
            if self._plan is not None and TOO_LARGE in str(error):
                raise self._name_oversized_records(error, self._plan) from error
            raise error
        pause = min(LONGEST_PAUSE_SECONDS, 2**self._failures)
        log.warning("restarting", flow=self._config.flow, pause_seconds=pause)
        self._context.tables.record_event(
            self._config.flow, "restarted", str(error), policy="retry"
        )
        self._stop.wait(pause)

    def _name_oversized_records(self, error: ReplicationError, plan: TopicPlan) -> QueryError:
        """*error* with the offsets of the rejected records, if they can be found.

        Finding them writes the last batch's runs to the offset map and may fail in turn. That
        failure is only logged, because *error* is what the operator must act on.
        """
        try:
            positions = self._find_positions(plan)
            lines = oversized_records(self._context, plan, positions)
        except ReplicationError as second:
            log.warning("oversized_records_not_found", flow=self._config.flow, text=second)
            lines = []
        text = "".join([str(error), *(f"\n  - {line}" for line in lines)])
        return QueryError(text, is_final=True)

    def _record_last_batch(self, ending: Ending) -> None:
        """Adds what an interrupted batch wrote to the offset map, so that groups can use it.

        A drain is done only when that is known, so it tries again as for the query.
        """
        while self._plan is not None:
            try:
                self._find_positions(self._plan)
            except (ClusterError, GuardError, QueryError) as error:  # noqa: PERF203 - a retry
                if ending != "drained":
                    text = f"the next start will recover it: {error}"
                    log.warning("last_batch_not_recorded", flow=self._config.flow, text=text)
                    return
                if isinstance(error, GuardError):
                    raise
                self._pause_or_raise(error)
            else:
                return
