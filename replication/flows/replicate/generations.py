"""The generations of a flow that run at the same time: one, and one more for each addition.

A new topic or partition gets a query of its own, so that the others go on without a pause. They
become one again when something ends them: a topic that goes, an error, a stop.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import decisive, explain, rejection
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.idle import IdlePartitions, apply_limits
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.open_transactions import OpenTransactions
from replication.flows.replicate.topic_ids import TopicIdWatch
from replication.java import JVM_GONE
from replication.model import Mode, Position, TopicPartition, is_local_mode
from replication.spark.acknowledged import is_reported, pause_partitions
from replication.spark.kafka_options import limit_polling
from replication.spark.mode import Continuous, Reader, Reading, choose_source, most_tasks
from replication.spark.progress import keep_events
from replication.spark.session import driver_obstacle, task_cores, task_slots
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.prepare import Reserve, reserve_all


@dataclass(frozen=True, slots=True)
class Admitted:
    """The decisions for one flow.

    Args:
        reserve: The topics of the plan that it does not name are the flow's until the next call.
        mode: The mode for what was reserved last; waits for task slots and may raise `FlowError`.
        mode_now: Where the mode is chosen automatically: the mode that fits the task slots of now.
            A generation ends if that is another one.
        share: With the shared source, how many slots the flow may hold in Real-Time Mode.
        sharing: How many flows with that source have tasks for as long as they run.
    """

    reserve: Reserve
    mode: Callable[[], Mode]
    mode_now: Callable[[], Mode] | None = None
    share: Callable[[], int] | None = None
    sharing: Callable[[], int] = lambda: 1


def alone(mode: Mode) -> Admitted:
    """Returns what is admitted for a flow that runs in *mode*, without any other flow."""
    return Admitted(reserve_all, lambda: mode)


LOOK_SECONDS = 5.0
LOOKS = 2
"""This many looks in a row must agree, so that an executor that is replaced is no change."""


class ModeWatch:
    """Asks whether what runs still fits, every few seconds."""

    def __init__(self) -> None:
        self._misfits = 0
        self._look_at = 0.0

    def misfit(self, ask: Callable[[], str], now: float) -> str:
        """Returns why what runs does not fit, if it did not at the last look either; else ""."""
        if now < self._look_at:
            return ""
        self._look_at = now + LOOK_SECONDS
        text = ask()
        self._misfits = self._misfits + 1 if text else 0
        if self._misfits < LOOKS:
            return ""
        self._misfits = 0
        return text


# How many tasks a flow's generations have, and whether those that run still fit.
#
# With Spark's source a task for each partition, as far as there are slots; with the shared source
# a few for all partitions, by the cores or ``tasks.max``, and in Real-Time Mode by the slots and
# the number of flows.

ROOM_FOR_TURNS: Final = 3
"""Free slots for each task of a generation that takes two: one stays free for a new topic."""


class FlowTasks:
    """The tasks of one flow."""

    def __init__(self, context: FlowContext, admitted: Admitted) -> None:
        self._context = context
        self._is_auto = context.config.mode == "auto"
        self._mode_now = admitted.mode_now
        self._share = admitted.share or self._all_slots
        self._sharing = admitted.sharing

    @cached_property
    def source(self) -> Reader:
        """Which source reads the records."""
        return choose_source(self._context.config.record_source, driver_obstacle()).source

    def reading(
        self, partitions: int, mode: Mode, running: Collection[Reading], *, later: int = 0
    ) -> Reading:
        """Returns how one more generation reads."""
        spark = self._context.spark
        if self.source == "spark":
            slots = max(1, task_slots(spark))  # none before the first executor has come
            return Reading(mode, "spark", min(partitions, slots))
        most = self._context.config.tasks_max
        keeps = mode == "realtime"  # a task keeps its slot
        free = (self._share() - _slots(running) if keeps else task_slots(spark)) - later
        bounds = [_part_of(free, running) if keeps else free]
        if most is not None:
            bounds.append(_part_of(most - _sum(running) - later, running))
        tasks = max(1, min(partitions, self._most(mode), *bounds))
        is_here = is_local_mode(spark.sparkContext.master) and is_reported(spark)
        has_room = keeps and free >= ROOM_FOR_TURNS * tasks
        return Reading(mode, "shared", tasks, is_here and has_room)

    def most_more(self, mode: Mode, running: Collection[Reading]) -> int | None:
        """Returns how many generations more may start, one at least; None for any number."""
        most = self._context.config.tasks_max
        bounds = [] if most is None else [most - _sum(running)]
        if mode == "realtime":  # a task keeps its slot
            bounds.append(self._share() - _slots(running))
        if self.source == "spark" or not bounds:
            return None
        return max(1, min(bounds))

    def has_room(self, running: Collection[Reading]) -> bool:
        """Returns whether there may be one more generation beside those that run."""
        if self.source == "spark":
            return True
        tasks, most = _sum(running), self._context.config.tasks_max
        if most is not None and tasks >= most:
            return False
        is_continuous = any(reading.mode == "realtime" for reading in running)
        return not is_continuous or _slots(running) < self._share()

    def misfit(self, partitions: int, running: Collection[Reading]) -> str:
        """Returns why the running generations no longer fit the task slots of now; "" if they do.

        Executors come and go. With fewer slots than it needs, a Real-Time query would leave
        partitions unread without an error; with far more, it is slower than it has to be.
        """
        mode = next((reading.mode for reading in running), None)
        if mode is None:
            return ""
        if self._is_auto and self._mode_now is not None and (now := self._mode_now()) != mode:
            return f"{now} fits now"
        if mode != "realtime" or self.source == "spark":
            return ""
        tasks, share = _sum(running), self._share()
        possible = min(partitions, self._most(mode), share)
        if tasks > share or possible >= 2 * tasks:
            return f"{tasks} tasks run, {possible} fit now"
        return ""

    def _most(self, mode: Mode) -> int:
        sharing = self._sharing() if mode == "realtime" else 1  # other tasks end when they are idle
        return most_tasks(task_cores(self._context.spark), self._context.config.tasks_max, sharing)

    def _all_slots(self) -> int:
        return Continuous(sharing=1).share(task_slots(self._context.spark))


def _part_of(left: int, running: Collection[Reading]) -> int:
    """Returns how much of what is *left* one more generation takes: half, if it is not the first.

    So what is newer still has room, and those that run go on when it comes.
    """
    return -(-left // 2) if running else left


def _slots(running: Collection[Reading]) -> int:
    return sum(reading.slots for reading in running)


def _sum(running: Collection[Reading]) -> int:
    return sum(reading.tasks for reading in running)


IsLeftOut = Callable[[TopicPartition], bool]

MOST: Final = 8
"""Generations at the same time. A query costs threads, so a further addition joins them all."""


class Generations:
    """The running generations of one flow; `close` ends all of them."""

    def __init__(
        self,
        context: FlowContext,
        map_writer: MapWriter,
        plan: TopicPlan,
        mode: Mode,
        tasks: FlowTasks,
    ) -> None:
        self._context = context
        self._map_writer = map_writer
        self.mode = mode
        self._tasks = tasks
        self._watch = ModeWatch()
        self._ids = TopicIdWatch(context, plan)
        self.plan = plan
        self._paused = frozenset[TopicPartition]()
        self._running: list[tuple[Generation, IdlePartitions]] = []
        self._readings: list[Reading] = []
        self._requests = context.write_requests
        self._asked: dict[str, int] = {}  # by request: the look that checks what was copied by then
        self._ends = context.metrics.ends
        self._failed: Generation | None = None

    @property
    def whole(self) -> TopicPlan:
        """The same, and what they leave out for now."""
        return self._ids.plan

    @property
    def replaced(self) -> Mapping[str, str]:
        """What became of topics that are not those of the plan any more, by upstream names."""
        topics = self.plan.topics
        return {name: text for name, text in self._ids.replaced.items() if name in topics}

    @property
    def has_news(self) -> bool:
        """Whether a topic is not that of the plan any more, or was set aside and is gone."""
        return bool(self.replaced or self._ids.lost_aside)

    def take_lost_aside(self) -> frozenset[str]:
        """Returns topics that were set aside and that the source does not have any more, once."""
        return self._ids.take_lost_aside()

    def extend(self, plan: TopicPlan) -> None:
        """Takes *plan*, which has more than the last one, for what they replicate together."""
        self.plan = plan
        self._ids.plan = plan.and_more(self.whole.only(self._paused))

    def steer(self, wanted: TopicPlan, is_left_out: IsLeftOut) -> TopicPlan | None:
        """Lets the tasks leave out what *wanted* lacks, and read what they had left out before.

        No query ends for it, where tasks of the shared source read. Returns what *wanted* has
        besides, which needs a query of its own; None if all need new ones, as where something
        is gone that no operator has left out (*is_left_out*).
        """
        if not self._steer(wanted, is_left_out):
            return None
        added = wanted.beyond(self.plan)
        if added is not None and not added.partitions:
            self.extend(wanted)
        return added

    def _steer(self, wanted: TopicPlan, is_left_out: IsLeftOut) -> bool:
        has = set(wanted.partitions)
        lost, back = set(self.plan.partitions) - has, self._paused & has
        rest = wanted.only((set(self.plan.partitions) - lost) | back)
        if not (lost or back):
            return True
        if not rest.partitions or not all(map(is_left_out, lost)) or not self._can_steer(back):
            return False
        if rest.fingerprint != self.whole.only(rest.partitions).fingerprint:  # other topics now
            return False
        self._paused = frozenset(self._paused - back | lost)
        pause_partitions(self._context.spark, self._context.config.flow, self._paused)
        self.plan = rest
        for _, idle in self._running:
            idle.leave_out(self._paused)
        return True

    def _can_steer(self, back: Collection[TopicPartition]) -> bool:
        if not all(reading.source == "shared" for reading in self._readings):
            return False
        moved = {each.partition for each in self._context.move_requests.find()} if back else set()
        return is_reported(self._context.spark) and moved.isdisjoint(back)

    def start(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        number: int,
        *,
        later: int = 0,
    ) -> int:
        """Starts one more, or several; returns the last number.

        Each codec has one, as a producer does, and so have topics with transforms: a record that
        cannot be transformed ends its query, and no other topic is to wait for the next one.
        They replicate *plan*, nothing of which the others do; *number* is that of the first one.
        They leave room for as many *later* ones.
        """
        is_heartbeats, apart = self._context.config.policy.is_heartbeats_topic, plan.transforms
        if self.mode == "drain" or all(map(is_heartbeats, plan.topics.keys() - apart.keys())):
            apart = {}  # nobody would gain by one query more
        parts = plan.by_codec(self._tasks.most_more(self.mode, self._readings), apart=apart)
        if any(plan.codecs[name] != codec for part in parts for name, codec in part.codecs.items()):
            self._context.log.warning("codecs_joined", generations=len(parts))
        for place, part in enumerate(parts):
            self._start(part, positions, number + place, later=later + len(parts) - place - 1)
        return number + len(parts) - 1

    def _start(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        number: int,
        *,
        later: int,
    ) -> None:
        """Starts one more, and leaves room for as many *later* ones."""
        context = self._context
        limit_polling(context.spark, len(plan.partitions))
        context.metrics.begin(number, self.mode, plan, positions)
        apply_limits(context, waits=True)
        reading = self._tasks.reading(len(plan.partitions), self.mode, self._readings, later=later)
        queries = max(each.queries for each in (*self._readings, reading))
        keep_events(context.spark, queries * len(self.plan.partitions))
        positions = {tp: positions[tp] for tp in plan.partitions}
        generation = Generation.start(
            context, (self._map_writer, self._ids), plan, positions, number=number, reading=reading
        )
        self._running.append((generation, IdlePartitions(context, plan)))
        self._readings.append(reading)
        context.metrics.reads(self._readings)
        context.log.info(
            "generation_started", generation=number, mode=self.mode,
            source=reading.source, tasks=reading.tasks,
            topics=len(plan.topics), partitions=len(plan.partitions), running=len(self._running),
        )  # fmt: skip

    @property
    def has_room(self) -> bool:
        """Whether one more may be started."""
        return len(self._running) < MOST and self._tasks.has_room(self._readings)

    def misfit(self) -> str:
        """Returns why they no longer fit the task slots, and did not at the last look either."""
        return self._watch.misfit(
            lambda: self._tasks.misfit(len(self.whole.partitions), self._readings), time.monotonic()
        )

    @property
    def have_lost_their_servers(self) -> bool:
        """Whether the source answers at addresses only that one of them was not told."""
        return any(generation.has_lost_its_servers for generation, _ in self._running)

    def record_progress(self) -> bool:
        """Records the progress of each; true if a batch of any has finished."""
        finished = [generation.record_progress() for generation, _ in self._running]
        self._context.metrics.looked()
        self._pass_markers()
        self._answer_writers()
        return any(finished)

    def _pass_markers(self) -> None:
        """Passes what little follows idle partitions, whenever their ends were looked at."""
        ends = self._context.metrics.ends
        if ends is self._ends:
            return
        self._ends = ends
        try:
            for generation, idle in self._running:
                idle.pass_markers(generation.pending, ends, time.monotonic())
        except ClusterError as error:
            self._context.log.warning("idle_check_failed", text=error)

    def _answer_writers(self) -> None:
        """Writes the map for commands that wait for it, once all is checked that it had by then."""
        topics = self.plan.topics
        for path in self._requests.find():
            if path not in self._asked:
                self._asked[path] = self._ids.want(topics)
        checked = [
            path
            for path, look in self._asked.items()
            if all(self._ids.is_same(topic, look) for topic in topics)
        ]
        if checked:
            for generation, _ in self._running:
                generation.write_pending()
        for path in checked:
            del self._asked[path]
            self._requests.answer(path)

    @property
    def had_news(self) -> bool:
        """Whether the last look at any has found new records or a finished batch."""
        return any(generation.had_news for generation, _ in self._running)

    @property
    def have_copied(self) -> bool:
        """Whether each has copied a record, or finished a batch without one."""
        return all(generation.has_copied for generation, _ in self._running)

    def have_ended(self) -> bool:
        """Returns whether all have copied everything: their queries have ended by themselves."""
        ended = [generation for generation, _ in self._running if not generation.is_running]
        for generation in ended:
            if generation.failures():
                self._failed = generation
                flow, rejected = self._context.config.flow, generation.rejected()
                raise decisive([explain(flow, each, rejected) for each in generation.failures()])
        for generation, _ in self._running:
            # Spark's sink looks at an answer with the next record of its task, or at the end of
            # the batch: in Real-Time Mode a record that nothing follows would wait for that
            if rejected := generation.rejected_so_far:
                self._failed = generation
                raise rejection(self._context.config.flow, rejected)
        return len(ended) == len(self._running)

    @property
    def failed(self) -> TopicPlan:
        """What the one replicates whose error `have_ended` has just raised."""
        return self.plan.only(() if self._failed is None else self._failed.plan.partitions)

    def end_failed(self) -> dict[TopicPartition, Position] | None:
        """Ends the one that has failed, as `close` does all; None if it cannot end alone."""
        failed, self._failed = self._failed, None
        if (
            failed is None
            or self.mode == "drain"
            or not is_reported(self._context.spark)  # nobody else knows whose records are in flight
            or not self._paused.isdisjoint(failed.plan.partitions)
        ):
            return None
        place = next(n for n, (each, _) in enumerate(self._running) if each is failed)
        del self._running[place], self._readings[place]
        positions = failed.close()
        self.extend(self.plan.only(set(self.plan.partitions) - set(failed.plan.partitions)))
        metrics = self._context.metrics
        metrics.leave(failed.number, failed.plan.topics.keys() - self.plan.topics.keys())
        metrics.reads(self._readings)
        return positions

    def check_idle(self, held_back: OpenTransactions, now: float) -> None:
        """Looks at the partitions that do not move; see `IdlePartitions` and *held_back*."""
        held_back.look(self.plan.partitions, now)
        for generation, idle in self._running:
            idle.check(generation.pending, now)

    def close(self) -> dict[TopicPartition, Position]:
        """Stops all queries, writes what they finished, and returns each partition's position.

        What was copied after the last look at a topic's id is not in it; see `CheckedRuns`.
        """
        positions: dict[TopicPartition, Position] = {}
        try:
            for generation, _ in self._running:
                generation.stop()
            for generation, _ in self._running:
                positions |= generation.close()
        finally:
            if self._paused:  # the next queries read everything: their plan lacks what is paused
                with suppress(*JVM_GONE):  # without the JVM nobody reads
                    pause_partitions(self._context.spark, self._context.config.flow, ())
            self._ids.close()  # its thread would look on for as long as the process lives
        self._running.clear()
        self._readings.clear()
        self._context.metrics.end()
        return positions
