"""How many tasks a flow's generations have, and whether those that run still fit.

With Spark's source a task for each partition, as far as there are slots; with the shared source a
few for all partitions, by the cores or ``tasks.max``, and in Real-Time Mode by the slots and the
number of flows.
"""

from collections.abc import Collection
from functools import cached_property
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.replicate.admitted import Admitted
from replication.model import Mode, is_local_mode
from replication.spark.acknowledged import is_reported
from replication.spark.mode import Continuous
from replication.spark.session import driver_obstacle, task_cores, task_slots
from replication.spark.sources import Reader, Reading, choose_source, most_tasks

ROOM_FOR_TURNS: Final = 3
"""Free slots for each task of a generation that takes two: one stays free for a new topic."""


class FlowTasks:
    """The tasks of one flow.

    Args:
        context: The flow.
        admitted: What it may do next to the others.
    """

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
        """Returns how one more generation reads.

        Args:
            partitions: Those of the generation.
            mode: In which it runs.
            running: The flow's other ones.
            later: How many more start at once, each with a task at least.
        """
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

        Args:
            partitions: Those of the flow.
            running: How its generations read.
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
