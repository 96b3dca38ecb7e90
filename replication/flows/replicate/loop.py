"""The replication loop: prepare topics, find positions, run the query, record progress; repeat.

Each round of the loop is a generation. It ends when the set of partitions changes or the query
fails; the next one finds its positions in the offset map and the target's log.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Literal

from replication.errors import ClusterError, GuardError, ReplicationError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import TOO_LARGE, QueryError, explain
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.idle import IdlePartitions
from replication.flows.replicate.locate import find_positions
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.oversized import oversized_records
from replication.flows.replicate.prepare import prepare_topics, topic_warnings
from replication.log import Log
from replication.model import Mode, Position, TopicPartition
from replication.offsets.runs import ProgressGapError
from replication.state.lease import Lease, LeaseLostError, hold_lease
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


def replicate(context: FlowContext, admit: Admit, stop: Event) -> None:
    """Replicates one flow until *stop* is set or, in drain mode, everything is copied.

    A flow that loses its lease stops its query and claims the lease again: it goes on if no other
    process has taken over, as after a long silence of the target.

    Args:
        context: The flow.
        admit: Called with the plan of each generation; may raise `GuardError`.
        stop: Ends the flow.

    Raises:
        LeaseError: Another process runs the flow.
        GuardError: Continuing would lose or repeat records, or *admit* rejected the plan.
        FlowError: The query failed, and restarting it did not help.
        ClusterError: A cluster does not answer.
        StateError: The state directory cannot be read or written.
    """
    while not _replicate_as_owner(context, admit, stop):
        pass


def _replicate_as_owner(context: FlowContext, admit: Admit, stop: Event) -> bool:
    """Replicates the flow while this process holds its lease; False if the lease was lost."""
    try:
        with hold_lease(context.tables, context.claim(), stop, standby=context.standby) as lease:
            if lease is not None:
                tables = context.tables.guarded(lease.check)
                try:
                    _FlowLoop(replace(context, tables=tables), admit, stop, lease).run()
                finally:
                    context.live_map.detach()
    except LeaseLostError as error:
        log.error("lease_lost", flow=context.config.flow, text=error)
        return False
    return True


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

    def run(self) -> None:
        ending: Ending = "changed"
        while ending == "changed":
            self._number += 1
            try:
                ending = self._run_generation()
            except (QueryError, ProgressGapError, ClusterError) as error:
                self._pause_or_raise(error)
        self._record_last_batch(ending)

    def _run_generation(self) -> Ending:
        config = self._config
        plan = prepare_topics(config, self._context.source, self._context.target)
        if not plan.partitions:
            return self._wait_for_topics()
        mode = self._admit(plan)
        if self._stop.is_set():
            return "stopped"
        self._plan = plan
        self._log_warnings(plan)
        positions = self._find_positions(plan)
        self._record_topics(plan)
        self._lease.check()
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
            self._lease.check()
            if generation.record_progress():
                self._failures = 0
            if not generation.is_running:
                failure = generation.failure()
                if failure is not None:
                    raise explain(self._config.flow, failure) from failure
                return "drained"
            if stopped:
                return "stopped"
            if self._config.refresh_topics_enabled and time.monotonic() >= refresh_at:
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
            refreshed = prepare_topics(self._config, self._context.source, self._context.target)
        except ClusterError as error:
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
        due = time.monotonic() + config.refresh_topics_interval_seconds
        while time.monotonic() < due:
            self._lease.check()
            if self._stop.wait(POLL_SECONDS):
                return "stopped"
        return "changed"

    def _find_positions(self, plan: TopicPlan) -> dict[TopicPartition, Position]:
        positions = find_positions(self._context, plan, self._map_writer, self._number)
        self._remember(plan, positions)
        return positions

    def _remember(self, plan: TopicPlan, positions: dict[TopicPartition, Position]) -> None:
        for tp, position in positions.items():
            self._map_writer.anchors[tp] = Anchor(position, plan.source_ids[tp.topic])

    def _pause_or_raise(self, error: ReplicationError) -> None:
        """Waits before the next generation; raises *error* if a restart cannot help."""
        self._lease.check()  # a lost lease may be the cause: its producers send nothing
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

        A drain is done only when that is known.
        """
        if self._plan is None:
            return
        try:
            self._find_positions(self._plan)
        except (ClusterError, GuardError) as error:
            if ending == "drained":
                raise
            log.warning(
                "last_batch_not_recorded",
                flow=self._config.flow,
                text=f"the next start will recover it: {error}",
            )
