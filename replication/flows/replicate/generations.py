"""The generations of a flow that run at the same time: one, and one more for each addition.

A new topic or partition gets a query of its own, so that the others go on without a pause. They
become one again when something ends them: a topic that goes, an error, a stop.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.flows.replicate.failures import decisive, explain, rejection
from replication.flows.replicate.flow_tasks import FlowTasks
from replication.flows.replicate.generation import Generation
from replication.flows.replicate.held_back import HeldBack
from replication.flows.replicate.idle import IdlePartitions
from replication.flows.replicate.limiting import apply_limits
from replication.flows.replicate.map_writer import MapWriter
from replication.flows.replicate.mode_watch import ModeWatch
from replication.flows.replicate.topic_ids import TopicIdWatch
from replication.model import Mode, Position, TopicPartition
from replication.spark.acknowledged import is_reported
from replication.spark.paused import pause_partitions
from replication.spark.polling import limit_polling
from replication.spark.progress import keep_events
from replication.topics.topic_plan import TopicPlan

if TYPE_CHECKING:
    from replication.spark.sources import Reading

IsLeftOut = Callable[[TopicPartition], bool]

MOST: Final = 8
"""Generations at the same time. A query costs threads, so a further addition joins them all."""


class Generations:
    """The running generations of one flow; `close` ends all of them.

    Args:
        context: The flow.
        map_writer: Takes the finished runs.
        plan: What the first one replicates.
        mode: How the queries run.
        tasks: How many tasks each has.

    Attributes:
        mode: How the queries run.
        plan: What they replicate together.
    """

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
        self._ends = context.board.ends

    @property
    def whole(self) -> TopicPlan:
        """The same, and what they leave out for now."""
        return self._ids.plan

    @property
    def replaced(self) -> Collection[str]:
        """Upstream names of topics that are not those of the plan any more, on either side."""
        return self._ids.replaced & self.plan.topics.keys()

    def extend(self, plan: TopicPlan) -> None:
        """Takes *plan*, which has more than the last one, for what they replicate together."""
        self.plan = plan
        self._ids.plan = plan.and_more(self.whole.only(self._paused))

    def steer(self, wanted: TopicPlan, is_left_out: IsLeftOut) -> TopicPlan | None:
        """Lets the tasks leave out what *wanted* lacks, and read what they had left out before.

        No query ends for it, where tasks of the shared source read. What *wanted* has besides needs
        a query of its own.

        Args:
            wanted: What is to be replicated.
            is_left_out: Whether an operator wants a partition left out; what is gone by itself is
                not.

        Returns:
            What *wanted* has besides; None if all need new queries.
        """
        if not self._steer(wanted, is_left_out):
            return None
        added = wanted.beyond(self.plan)
        if added is not None and not added.partitions:
            self.extend(wanted)
        return added

    def _steer(self, wanted: TopicPlan, is_left_out: IsLeftOut) -> bool:
        """Does as `steer`; false if tasks cannot."""
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
        """Returns whether tasks of the shared source read, which go on with *back* where it was."""
        if not all(reading.source == "shared" for reading in self._readings):
            return False
        moved = {each.partition for each in self._context.move_requests.find()} if back else set()
        return is_reported(self._context.spark) and moved.isdisjoint(back)

    def start(
        self,
        plan: TopicPlan,
        positions: Mapping[TopicPartition, Position],
        number: int,
    ) -> int:
        """Starts one more, or one for each codec, as a producer has one.

        Args:
            plan: What they replicate: nothing that the others do.
            positions: Where each partition of the plan resumes.
            number: Of the first one.

        Returns:
            The number of the last one.

        Raises:
            QueryError: A query does not start.
        """
        parts = plan.by_codec(self._tasks.most_more(self.mode, self._readings))
        if any(plan.codecs[name] != codec for part in parts for name, codec in part.codecs.items()):
            self._context.log.warning("codecs_joined", generations=len(parts))
        for place, part in enumerate(parts):
            self._start(part, positions, number + place, later=len(parts) - place - 1)
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
        context.board.begin(number, self.mode, plan, positions)
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
        context.board.reads(self._readings)
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
        """Records the progress of each; true if a batch of any has finished.

        Raises:
            StateError: Several attempts in a row to write the offset map have failed.
        """
        finished = [generation.record_progress() for generation, _ in self._running]
        self._context.board.looked()
        self._pass_markers()
        self._answer_writers()
        return any(finished)

    def _pass_markers(self) -> None:
        """Passes what little follows idle partitions, whenever their ends were looked at."""
        ends = self._context.board.ends
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
        """Returns whether all have copied everything: their queries have ended by themselves.

        Raises:
            QueryError: A query failed.
        """
        ended = [generation for generation, _ in self._running if not generation.is_running]
        for generation in ended:
            if generation.failures():
                flow, rejected = self._context.config.flow, generation.rejected()
                raise decisive([explain(flow, each, rejected) for each in generation.failures()])
        for generation, _ in self._running:
            self._check_rejected(generation)
        return len(ended) == len(self._running)

    def _check_rejected(self, generation: Generation) -> None:
        """Raises what the target said of a record, if executors have reported that.

        Spark's sink looks at an answer with the next record of its task, or at the batch's end: in
        Real-Time Mode a record that nothing follows would wait for that.
        """
        if rejected := generation.rejected_so_far:
            raise rejection(self._context.config.flow, rejected)

    def check_idle(self, held_back: HeldBack, now: float) -> None:
        """Looks at the partitions that do not move; see `IdlePartitions` and *held_back*.

        Raises:
            ClusterError: The source does not answer.
        """
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
            self._take_all_back()
            self._ids.close()  # its thread would look on for as long as the process lives
        self._running.clear()
        self._readings.clear()
        self._context.board.end()
        return positions

    def _take_all_back(self) -> None:
        """Lets the next queries read everything: their plan lacks what is paused."""
        if self._paused:
            with suppress(Py4JError):  # without the JVM nobody reads
                pause_partitions(self._context.spark, self._context.config.flow, ())
