"""The replication loop: prepare topics, find positions, run the query, record progress; repeat.

Each round of the loop is a generation. It ends when a partition is gone or the query fails; the
next one finds its positions in the offset map and the target's log. What is new in between gets a
generation of its own, and the others go on.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from threading import Event
from typing import Literal

from replication.errors import ClusterError, GuardError, ReplicationError, StateError
from replication.flows.context import FlowContext
from replication.flows.replicate.catch_up import CatchUpGoal
from replication.flows.replicate.choose import SelectionReport, TopicChoice
from replication.flows.replicate.dead_letters import DeadLetters
from replication.flows.replicate.failures import QueryError, blamed_part, spark_errors
from replication.flows.replicate.generations import Admitted, FlowTasks, Generations
from replication.flows.replicate.heartbeat_copies import HeartbeatCopies
from replication.flows.replicate.maintain import maintained_tables
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.open_transactions import LeftBehind
from replication.flows.replicate.overrides import OverrideFollower
from replication.flows.replicate.recover import Recovery, Standstill
from replication.flows.replicate.resume import settle_positions
from replication.flows.replicate.schemas import kept_schemas
from replication.flows.replicate.try_alone import Windows, copy_lost, copy_up_to_rejected, try_alone
from replication.flows.replicate.warm import held_records
from replication.kafka.api import join_names
from replication.model import Position, TopicPartition
from replication.offsets.runs import ProgressGapError
from replication.positions.expire import describe_old_records
from replication.positions.find import Found
from replication.positions.measure import InFlight, give_up_in_flight
from replication.state.claim import NoLeaseAnswerError
from replication.state.lease import Lease, LeaseLostError
from replication.state.table_reader import Anchor
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import topic_losses, unwritable_topics

# How often a flow's loop looks at its queries: less often while nothing changes.
#
# A look asks the JVM several times. With 20 idle flows, two looks a second of each took a third of
# the CPU that the application used.

LEAST_SECONDS = 0.5
"""As often as executors report."""

MOST_SECONDS = 2.0
"""How late an idle flow notices that its query has failed, or that its first records arrive."""


class PollInterval:
    """The pause before the next look."""

    def __init__(self) -> None:
        self.seconds = LEAST_SECONDS

    def look(self, *, had_news: bool) -> None:
        """Sets the next pause: twice the last one, unless the look *had_news*."""
        self.seconds = LEAST_SECONDS if had_news else min(MOST_SECONDS, 2 * self.seconds)


class StartNotes:
    """The notes of one flow, each logged once."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._has_looked_at_age = False
        self._unwritable = set[str]()

    def say_losses(self, plan: TopicPlan) -> None:
        """Logs what the target would not keep, once per topic."""
        losses = topic_losses(plan.topics, self._context.source, self._context.target)
        for text in self._context.metrics.note_losses(plan.topics, losses):
            self._context.log.warning("target_keeps_less", text=text)

    def say_started(self, plan: TopicPlan, positions: Mapping[TopicPartition, Position]) -> None:
        """Logs what can be known when the query runs, so that it holds up no start."""
        self._say_unwritable(plan)
        if self._has_looked_at_age:
            return
        self._has_looked_at_age = True
        try:  # whether the target's brokers should not be restarted now
            text = describe_old_records(self._context, plan, positions)
        except ClusterError as error:
            self._context.log.info("age_unknown", text=error)
            return
        if text:
            self._context.log.warning("old_records", text=text)

    def say_added(self, plan: TopicPlan) -> None:
        """Logs the same of topics that come while others are copied, and which take no records."""
        self.say_losses(plan)
        self._say_unwritable(plan)

    def _say_unwritable(self, plan: TopicPlan) -> None:
        """Logs which remote topics take no records, once each: producers wait for that silently."""
        with suppress(ClusterError):  # the query meets that itself, and says it
            found = set(unwritable_topics(plan, self._context.target).values())
            for text in sorted(found - self._unwritable):
                self._context.log.warning("target_takes_nothing", text=text)
            self._unwritable |= found


def note_ends(context: FlowContext, partitions: Iterable[TopicPartition]) -> None:
    """Notes the log end and the last stable offset of those of *partitions* that are new.

    Without an answer of the source they stay unknown.
    """
    summary, source = context.summary, context.source
    new = summary.without_end(partitions)
    if not new:
        return
    try:
        stable = source.log_ends(new, "read_committed")
        summary.begin(source.log_ends(new), stable, context.config.isolation)
    except ClusterError as error:
        context.log.info("source_ends_unknown", text=error)


def with_news(
    context: FlowContext, plan: TopicPlan, positions: Mapping[TopicPartition, Position]
) -> TopicPlan:
    """Returns what of *plan* a drain must read: partitions not yet at their ends.

    A task with a consumer and a producer for each of the others would find nothing.
    """
    flow = context.config.flow
    ends = context.source.log_ends(plan.partitions)
    news = {tp for tp in plan.partitions if ends.get(tp) != positions[tp].upstream}
    context.log.info("drain_begun", partitions=len(news), of=len(positions))
    if not news:
        context.head_start.end(flow)
    return plan.only(news)


GenerationEnding = Literal["stopped", "drained", "changed"]

LOOK_AGAIN_SECONDS = 5
"""After a look that a cluster did not answer, while topics wait for it."""

IDLE_CHECK_SECONDS = 60
LAST_CHECK_SECONDS = 2
"""The same while an operator waits for the end: of a partition at a marker, the check says so."""


def replicate(context: FlowContext, admitted: Admitted, stop: Event) -> ReplicationError | None:
    """Replicates one flow until *stop* is set or, in drain mode, everything is copied.

    A topic that cannot be replicated is set aside and does not stop the others. A flow that loses
    its lease stops its query and claims the lease again: it goes on if no other process has taken
    over, as after a long silence of the target.

    Args:
        context: The flow.
        admitted: What it may do next to other flows.
        stop: Ends the flow.

    Returns:
        The error of the topics that a drain has set aside; None if everything is copied.

    Raises:
        LeaseError: Another process runs the flow.
        GuardError: Continuing would lose or repeat records of all topics, or other flows keep all
            of them.
        FlowError: The query failed, and restarting it did not help.
        ClusterError: A cluster does not answer.
        StateError: The state directory cannot be read or written.
    """
    standstill = Standstill(context, stop)
    has_settled = True
    while True:
        try:
            return _replicate_as_owner(context, admitted, stop, standstill, has_settled=has_settled)
        except LeaseLostError as error:  # noqa: PERF203 - once after a long silence
            has_settled = False
            context.log.error("lease_lost", text=error)
        except NoLeaseAnswerError as error:
            if context.config.mode == "drain":
                raise
            standstill.wait(error)


def _replicate_as_owner(
    context: FlowContext,
    admitted: Admitted,
    stop: Event,
    standstill: Standstill,
    *,
    has_settled: bool,
) -> ReplicationError | None:
    """Replicates the flow while this process holds its lease.

    *has_settled* is false if this process may have records on their way, from a lease that it lost.
    """
    with held_records(context, stop, standstill.note) as lease:
        if lease is None:
            return None
        lease.has_settled = has_settled
        context.requests.read_changes(context.config.flow)  # what is paused is so from the start
        owner = replace(context, tables=context.tables.guarded(lease.check))
        try:
            with maintained_tables(owner, stop), kept_schemas(owner, stop):
                return _FlowLoop(owner, admitted, stop, lease, standstill).run()
        finally:
            context.metrics.turn_to("ended")
            context.live_map.detach()


class _FlowLoop:
    """What one flow keeps from generation to generation."""

    def __init__(
        self,
        context: FlowContext,
        admitted: Admitted,
        stop: Event,
        lease: Lease,
        standstill: Standstill,
    ) -> None:
        self._context = context
        self._flow = context.config.flow
        self._admitted = admitted
        self._stop = stop
        self._lease = lease
        self._tasks = FlowTasks(context, admitted)
        self._plan: TopicPlan | None = None
        self._notes = StartNotes(context)
        self._heartbeats = HeartbeatCopies(context)
        self._held = frozenset[TopicPartition]()  # remote ones with records of earlier generations
        self._look_at = inf  # when topics are looked at next, as some are gone or were let go
        self._selection = SelectionReport(context)
        self._map_writer = MapWriter(context)
        self._number = self._map_writer.last_generation
        self._steer = OverrideFollower(context, self._map_writer)
        self._choice = TopicChoice(context, self._map_writer, admitted.reserve)
        self._left_behind = LeftBehind(context)
        self._goal = CatchUpGoal(context, lambda: self._choice.set_aside)
        self._standstill = standstill
        self._letters = DeadLetters(context, self._map_writer, lambda: self._number)
        self._recovery = Recovery(
            context, self._choice, standstill, self._find_rejected, stop, self._letters
        )

    def run(self) -> ReplicationError | None:
        try:
            ending: GenerationEnding = "changed"
            while ending == "changed" and not self._stop.is_set():
                self._number += 1
                try:
                    ending = self._run_generation()
                except (QueryError, ProgressGapError, ClusterError, StateError) as error:
                    self._lease.check()  # a lost lease may be the cause: its producers send nothing
                    self._context.metrics.turn_to("waiting", str(error))
                    self._recovery.recover(error, self._plan)
            self._record_last_batch(ending)
            if ending != "drained":
                return None
            self._left_behind.report()
            left_out = self._choice.error()
            if self._context.config.mode == "drain":
                left_out = left_out or self._selection.error()
            self._context.head_start.end(self._flow)  # a last round of checkpoints may follow
            if left_out is None:
                self._context.catch_up.done = self._goal.fulfilled
            return left_out
        finally:
            shown = None if self._plan is None else self._plan.topics.keys()
            positions, set_aside = self._map_writer.next_offsets, self._choice.set_aside
            self._context.summary.end(positions, set_aside, shown)

    def _run_generation(self) -> GenerationEnding:
        self._context.metrics.turn_to("starting")
        self._steer.look()
        plan = self._choice.plan()
        self._goal.note(plan)
        self._selection.report(plan)
        if not plan.partitions:
            return self._wait_for_topics(plan)
        mode = self._admitted.mode()
        if self._stop.is_set():
            return "stopped"
        self._plan = plan
        self._notes.say_losses(plan)
        self._letters.copies.finish(plan, self._number)
        positions = self._find_positions(plan)
        self._map_writer.topics.record(self._plan, self._number)  # the positions are of their ids
        if self._letters.copies.copy(self._plan, positions, self._number):
            positions = self._find_positions(self._plan)
        if self._try_alone(self._plan, positions):
            positions = self._find_positions(self._plan)
        plan = self._plan
        if not plan.partitions:
            return "changed"
        self._standstill.end()
        self._choice.rejoin(plan)
        self._map_writer.topics.record(plan, self._number)
        self._steer.follow(plan, self._number)
        self._left_behind.begin(plan.partitions)
        self._lease.check()
        due = with_news(self._context, plan, positions) if mode == "drain" else plan
        if not due.partitions:
            self._plan = None  # nothing is written, so that the positions stay what they are
            return "drained"
        self._lease.has_settled = False
        if self._heartbeats.may_copy(due, positions):
            is_done = self._heartbeats.copy(due, positions, self._map_writer, self._number)
            return "drained" if is_done else "changed"
        running = Generations(self._context, self._map_writer, plan, mode, self._tasks)
        self._map_writer.rejected.clear()
        try:
            self._number = running.start(due, positions, self._number)
            self._notes.say_started(running.plan, positions)
            self._context.metrics.turn_to("replicating")
            ending = self._attend(running)
        finally:
            self._remember(running.whole, running.close())
            if running.replaced:  # records for a topic that is gone would be in flight for ever
                give_up_in_flight(self._context.spark, self._flow)
        return "changed" if ending == "drained" and running.replaced else ending

    def _attend(self, running: Generations) -> GenerationEnding:
        config = self._context.config
        refresh_at = time.monotonic() + config.refresh_topics_interval_seconds
        check_seconds = min(IDLE_CHECK_SECONDS, config.refresh_topics_interval_seconds)
        checked_at = time.monotonic()
        idle_at = time.monotonic() + self._context.head_start.idle_seconds
        pace = PollInterval()
        while True:
            stopped = self._steer.wait(self._stop, pace.seconds, lambda: running.has_news)
            self._context.metrics.turn()
            self._lease.check()
            if running.record_progress():
                self._recovery.end()
            pace.look(had_news=running.had_news or running.mode == "drain")
            if running.have_copied or time.monotonic() >= idle_at:
                self._context.head_start.end(self._flow)
            try:
                if running.have_ended():
                    return "drained"
            except QueryError as error:
                if stopped or not self._go_on_without(running, error):
                    raise
            if stopped:
                return "stopped"
            if self._is_outdated(running):
                return "changed"
            self._steer.record(self._number)
            self._choice.try_now(running.take_lost_aside())
            is_due = config.refresh_topics_enabled and time.monotonic() >= refresh_at
            is_due = is_due or self._goal.is_due or time.monotonic() >= self._look_at
            if is_due or self._steer.is_due or self._choice.has_retry():
                self._context.metrics.rest()
                if not self._follow(running):
                    return "changed"
                refresh_at = time.monotonic() + config.refresh_topics_interval_seconds
            if self._goal.is_reached:
                return "drained"
            seconds = LAST_CHECK_SECONDS if self._goal.is_asked else check_seconds
            if time.monotonic() >= checked_at + seconds:
                try:
                    running.check_idle(self._left_behind.held_back, time.monotonic())
                except ClusterError as error:
                    self._context.log.warning("idle_check_failed", text=error)
                checked_at = time.monotonic()

    def _is_outdated(self, running: Generations) -> bool:
        """Returns whether *running* must end: what it reads, where, or how is not that any more."""
        if replaced := running.replaced:
            command = f"python -m replication events FILE --flow '{self._flow}' --since 15m"
            self._context.metrics.lose({name: (text, command) for name, text in replaced.items()})
            text = "; ".join(text for _, text in sorted(replaced.items()))
            self._context.log.info("topics_replaced", text=text)
            return True
        if self._letters.copies.are_asked_for() or self._map_writer.leaders.cut:
            return True
        if text := running.misfit():
            self._context.log.info("mode_no_longer_fits", mode=running.mode, text=text)
            return True
        if running.have_lost_their_servers:
            self._context.log.info("source_addresses_changed", cluster=self._flow.source)
            return True
        return False

    def _follow(self, running: Generations) -> bool:
        """Looks at the topics again, and starts what is new; false if *running* must end for it."""
        self._steer.look(is_running=True)
        awaited, self._look_at = self._look_at, inf
        try:
            refreshed = self._choice.plan(running.plan)
            self._goal.note(refreshed)
            if refreshed.fingerprint != running.plan.fingerprint:
                self._context.log.info("topics_changed")
                try:
                    if not self._add(running, refreshed):
                        return False
                except QueryError as error:
                    blamed = blamed_part(error, refreshed.without(running.plan.topics))
                    if not (error.is_alone and blamed.topics):
                        raise
                    self._recover_beside(error, blamed)
            self._steer.follow(refreshed, self._number)
        except ClusterError as error:
            self._choice.postpone()
            self._goal.postpone()
            if awaited < inf:
                self._look_at = time.monotonic() + LOOK_AGAIN_SECONDS
            self._context.log.warning("topic_refresh_failed", text=error)
        return True

    def _go_on_without(self, running: Generations, error: QueryError) -> bool:
        """Lets all topics go on but those that may be to blame for *error*, which ended a query.

        Whatever else that query has copied gets a new one at once. What is to blame is set aside,
        or comes back as a new topic does, to be tried alone or behind a dead letter: its next
        failure ends a query of its own. Returns false if all must end.
        """
        whole = running.plan
        blamed = blamed_part(error, running.failed)
        rest = whole.without(blamed.topics)
        ended = running.end_failed() if blamed.topics and rest.partitions else None
        if ended is None:
            return False
        self._context.metrics.rest()
        self._context.log.warning("topics_isolated", text=f"{join_names(blamed.topics)}: {error}")
        self._lease.check()
        self._remember(whole, ended)
        if not self._add(running, rest, "reported", later=1):
            self._plan = whole  # the error is about one of its topics
            return False
        self._plan = rest
        self._recover_beside(error, blamed)
        return True

    def _recover_beside(self, error: QueryError, blamed: TopicPlan) -> None:
        """Recovers from *error*, for which only *blamed* is to blame, while others are copied."""
        self._look_at = time.monotonic()
        self._recovery.recover(error, blamed, is_beside=True)

    def _add(
        self,
        running: Generations,
        refreshed: TopicPlan,
        in_flight: InFlight = "nothing",
        *,
        later: int = 0,
    ) -> bool:
        """Starts a generation for what *refreshed* has more; false if it has not only more.

        *in_flight* may be what a generation has left that ended alone. There will be room for so
        many *later* ones.
        """
        added = running.steer(refreshed, self._steer.leaves_out)
        if added is not None and not added.partitions:
            return True
        has_room = running.has_room and self._admitted.mode() == running.mode
        if added is None or not has_room or self._held & {*added.copies.values()}:
            return False
        self._number += 1
        located = self._locate(added, in_flight)
        if not located.is_whole:
            return False
        self._plan = refreshed  # an error is about one of its topics
        names = refreshed.topics.keys() - added.topics.keys()
        self._map_writer.topics.record(refreshed.without(names), self._number)
        if self._try_alone(added, located.positions):
            located = self._locate(added, "reported")
            if not located.is_whole:
                return False
        self._choice.rejoin(added)
        self._lease.check()
        running.extend(refreshed)
        for tp in added.partitions:
            self._map_writer.rejected.pop(tp, None)
        self._number = running.start(added, located.positions, self._number, later=later)
        self._notes.say_added(added)
        return True

    def _wait_for_topics(self, plan: TopicPlan) -> GenerationEnding:
        """Ends a drain; in the other modes waits until a topic refresh or a change is due."""
        config = self._context.config
        self._steer.follow(plan, self._number)
        if not plan.paused:
            self._selection.log_none()
        if config.mode == "drain":
            return "drained"
        self._context.head_start.end(config.flow)
        self._context.metrics.have_nothing(is_paused=bool(plan.paused), held=self._steer.held)
        due = time.monotonic() + config.refresh_topics_interval_seconds
        while time.monotonic() < due and not (
            self._steer.is_due or self._choice.has_retry() or self._goal.is_due
        ):
            if self._goal.is_reached:
                return "drained"
            self._lease.check()
            self._steer.record(self._number)
            if self._steer.wait(self._stop, LEAST_SECONDS):
                return "stopped"
        return "changed"

    def _find_positions(self, plan: TopicPlan) -> dict[TopicPartition, Position]:
        """Finds the positions of *plan*'s topics; those without any leave the plan."""
        located = self._locate(plan, self._heartbeats.in_flight)
        self._held = located.held  # else nothing of the generation before is in flight
        self._lease.has_settled = not self._held
        self._plan = self._choice.narrow(plan, located)
        self._look_at = 0.0 if located.gone else inf
        return located.positions

    def _locate(self, plan: TopicPlan, in_flight: InFlight) -> Found:
        """Finds where *plan* resumes, which no query replicates, and remembers it."""
        with spark_errors(self._flow):
            located = settle_positions(
                self._context,
                plan,
                self._map_writer,
                self._number,
                in_flight,
                copy_lost=partial(self._copy_lost, plan),
            )
        self._remember(plan, located.positions)
        note_ends(self._context, plan.partitions)
        return located

    def _copy_lost(
        self, plan: TopicPlan, windows: Windows, ends: Mapping[TopicPartition, Position]
    ) -> None:
        self._lease.check()
        self._lease.has_settled = False
        copy_lost(self._context, plan, self._map_writer, windows, ends, number=self._number)
        self._number += 1

    def _try_alone(self, plan: TopicPlan, positions: dict[TopicPartition, Position]) -> bool:
        self._lease.check()
        has_tried = try_alone(self._context, plan, self._map_writer, positions, number=self._number)
        self._number += has_tried
        return has_tried

    def _find_rejected(self, plan: TopicPlan, *, is_beside: bool) -> dict[TopicPartition, Position]:
        """Finds *plan*'s positions after copying a batch up to its rejected record."""
        find = self._find_beside if is_beside else self._find_positions
        positions = find(plan)
        self._lease.check()
        self._number += 1
        written, number = self._map_writer, self._number
        if copy_up_to_rejected(self._context, plan, written, positions, number=number):
            return find(plan)
        return positions

    def _find_beside(self, plan: TopicPlan) -> dict[TopicPartition, Position]:
        self._number += 1  # that of the last one may be running
        return self._locate(plan, "reported").positions

    def _remember(self, plan: TopicPlan, positions: dict[TopicPartition, Position]) -> None:
        for tp, position in positions.items():
            self._map_writer.anchors[tp] = Anchor(position, plan.source_ids[tp.topic])
        # also of what a drain does not read, as nothing is new there
        self._context.metrics.place({tp: at.upstream for tp, at in positions.items()})

    def _record_last_batch(self, ending: GenerationEnding) -> None:
        """Adds what an interrupted batch wrote to the offset map, so that groups can use it.

        A drain is done only when that is known, so it tries again as for the query.
        """
        while self._plan is not None:
            try:
                self._find_positions(self._plan)
            except (ClusterError, GuardError, QueryError, StateError) as error:  # noqa: PERF203 - a retry
                if ending != "drained":
                    text = f"the next start will recover it: {error}"
                    self._context.log.warning("last_batch_not_recorded", text=text)
                    return
                if isinstance(error, GuardError):
                    raise
                self._recovery.pause(error)
            else:
                return
