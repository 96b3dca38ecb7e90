"""Which source and mode a flow's query has, and how many task slots that takes. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from replication.errors import FlowError, SetupError
from replication.model import Mode, Source

# Which Kafka source reads the records of a flow, and how many tasks share its partitions.

SHARED: Final = "replication.source.SharedSource"
"""The source of ours: its tasks each read many partitions through one consumer."""

INTERFACE: Final = "org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode"
"""What Spark must have for it: since 4.1."""

SHADED: Final = "kafkashaded.org.apache.kafka.clients.consumer.KafkaConsumer"
"""The client of a platform whose connector has one of its own."""

TOKENS: Final = "spark.kafka.clusters."
"""Settings of Spark's delegation tokens, which only Spark's source gives to its consumers."""

MOST_TASKS: Final = 8
"""Of a flow, unless ``tasks.max`` says another number: a few keep a machine's network busy."""

TASKS_PER_CORE: Final = 2
"""Of all flows that keep tasks: each has one, and with few flows one of them can use all cores."""

Reader = Literal["shared", "spark"]


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """A source and why."""

    source: Reader
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How a generation reads: in which mode, by which source, in how many tasks at once.

    One that takes turns has two queries; as many tasks as read wait for the end of a batch.
    """

    mode: Mode
    source: Reader
    tasks: int
    takes_turns: bool = False

    @property
    def queries(self) -> int:
        return 2 if self.takes_turns else 1

    @property
    def slots(self) -> int:
        return self.tasks * self.queries


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a read of what is there is shared: by how many tasks, from how many brokers."""

    tasks: int
    brokers: int


def choose_source(wanted: Source, obstacle: str) -> SourceChoice:
    """Returns the source that reads the records.

    Args:
        wanted: ``replication.source``; only ``auto`` leaves a choice.
        obstacle: Why the shared source cannot be used here, and what helps; empty if it can.

    Raises:
        SetupError: ``shared`` is configured and impossible.
    """
    if wanted == "shared" and obstacle:
        raise SetupError(f"replication.source=shared is impossible here: {obstacle}, or use auto")
    if wanted == "auto":
        return SourceChoice("spark", obstacle) if obstacle else SourceChoice("shared", "by auto")
    return SourceChoice(wanted, "as configured")


def obstacle_to_sharing(is_there: Callable[[str], bool], settings: Iterable[str]) -> str:
    """Returns why the shared source cannot be used, and what helps; empty if it can.

    Args:
        is_there: Whether the driver can load a class.
        settings: The names of Spark's settings.
    """
    if not is_there(SHARED):
        return (
            f"the class {SHARED} is not on Spark's class path: pass replication.jar with --jars "
            "(spark-submit.sh does so)"
        )
    if not is_there(INTERFACE):
        return "this Spark lacks the interfaces of its sources' Real-Time Mode: take Spark 4.1"
    if is_there(SHADED):
        return "this Spark has a Kafka client of its own, kafkashaded: take Spark's source"
    if any(name.startswith(TOKENS) for name in settings):
        return f"only Spark's source knows the delegation tokens of {TOKENS}*: remove them"
    return ""


def most_tasks(cores: int, tasks_max: int | None, sharing: int = 1) -> int:
    """Returns the most tasks of a flow with the shared source.

    Args:
        cores: Those of the application: of this machine, or task slots of executors.
        tasks_max: ``tasks.max``; None if the file does not say it.
        sharing: How many flows keep tasks on these cores. A task that waits costs as much as a
            client; so all flows together have about `TASKS_PER_CORE`.
    """
    if tasks_max is not None:
        return tasks_max
    fair = -(-TASKS_PER_CORE * cores // max(1, sharing))
    return max(1, min(cores, MOST_TASKS, fair))


REALTIME_SINCE = (4, 2)
"""Real-Time Mode came with Spark 4.1; its Kafka source has its present form since 4.2."""

BOOKKEEPING_SLOTS = 2
"""Task slots kept free of Real-Time tasks: Delta writes and reads, counting after a crash."""

SPARE_SLOTS = 1
"""The least that is kept free where flows share tasks: their number follows from the slots."""

LOCAL_SLOTS_PER_PARTITION = 3
"""On one machine: the partitions may grow to three times as many while the job runs, and it stays
in Real-Time Mode. A flow with the shared source has two slots for each task, which take turns, and
as many as it has tasks for new topics."""

LOCAL_SPARE_SLOTS = 8
"""On one machine: heartbeats, checkpoints and bookkeeping of several flows at once."""

LOCAL_BATCH_SLOTS = 32
"""On one machine: tasks of micro-batches and drains at once. Each has a consumer with records in
memory."""

HEAP_MB_PER_TASK = 4
"""On one machine: the driver's heap for each partition that `auto` copies in Real-Time Mode. A task
has a consumer, threads and records in memory for as long as it runs."""


FILES_OF_A_DRIVER = 350
"""On one machine: the files that a driver has open before its first flow, most of them jars."""

FILES_PER_FLOW = 50
"""Clients, their connections, and tables."""

FILES_PER_TASK = 6
"""A consumer of a cluster with one broker has four, and a connection to each further one."""

KEPT_CONSUMERS = 64
"""Of micro-batches and drains, from one batch to the next, by Spark's default."""

BATCH_MODES: Final = frozenset[Mode]({"microbatch", "drain"})
"""Their tasks are short, so that they hold no slot."""


class SlotsError(FlowError):
    """The task slots do not suffice for the configured mode."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """A mode and why; *lacks_slots*: with more of them it would be another one."""

    mode: Mode
    reason: str
    lacks_slots: bool = False


@dataclass(frozen=True, slots=True)
class Continuous:
    """What all flows of an application that may run in Real-Time Mode need slots for.

    Args:
        partitions: Those that Spark's source reads: each holds a slot for the whole batch.
        sharing: How many flows have the shared source: each holds as many slots as there are for
            it, at least one.
    """

    partitions: int = 0
    sharing: int = 0

    @property
    def slots(self) -> int:
        """The least that all of them need."""
        spare = BOOKKEEPING_SLOTS if self.partitions else SPARE_SLOTS
        return self.partitions + self.sharing + spare

    def share(self, slots: int) -> int:
        """Returns how many of *slots* each flow with the shared source may hold."""
        left = slots - self.partitions - BOOKKEEPING_SLOTS
        return max(1, left // max(1, self.sharing))

    def __str__(self) -> str:
        """Returns for what the slots are."""
        held = [f"{self.partitions} partitions"] if self.partitions else []
        held += [f"{self.sharing} flows with the shared source"] if self.sharing else []
        return " and ".join(held or ["no partition"])


def choose_mode(
    wanted: Mode, needs: Continuous, *, spark: str, slots: int, has_realtime: bool = False
) -> ModeChoice:
    """Returns the mode to run in.

    Args:
        wanted: ``replication.mode``; only ``auto`` leaves a choice.
        needs: What all flows that may run in Real-Time Mode need slots for.
        spark: Spark's version, e.g. ``4.2.0``.
        slots: Task slots of the application.
        has_realtime: The platform's own Spark has Real-Time Mode under a lower version number.

    Raises:
        FlowError: ``realtime`` is configured and impossible; a `SlotsError` if only slots are
            missing. With too few slots Spark would leave some partitions unread, without an error.
    """
    if wanted in BATCH_MODES:
        return ModeChoice(wanted, "as configured")
    old = ""
    if not has_realtime and tuple(map(int, spark.split(".")[:2])) < REALTIME_SINCE:
        old = f"Spark 4.2, this is Spark {spark}; upgrade Spark"
    obstacle = old or too_few_slots(slots, needs)
    if not obstacle:
        return ModeChoice("realtime", f"{slots} task slots suffice for {needs}")
    if wanted == "realtime":
        error = FlowError if old else SlotsError
        raise error(f"replication.mode=realtime needs {obstacle}, or use auto")
    return ModeChoice("microbatch", f"Real-Time Mode needs {obstacle}", lacks_slots=not old)


def small_heap(partitions: Mapping[Mode, int], heap_mb: int) -> str:
    """Returns what a heap too small for Real-Time Mode means, and the next step; empty if large.

    Args:
        partitions: Source partitions of the flows, by ``replication.mode``.
        heap_mb: The driver's heap.
    """
    continuous = partitions.get("realtime", 0)
    undecided = partitions.get("auto", 0)
    needed_mb = HEAP_MB_PER_TASK * (continuous + undecided)
    if needed_mb <= heap_mb:
        return ""
    consequence = "auto takes micro-batches" if undecided else "the heap may not suffice"
    return (
        f"{consequence}: on one machine {continuous + undecided} partitions in Real-Time Mode take "
        f"a driver's heap of {needed_mb} MB, this one has {heap_mb} MB; DRIVER_MEMORY={needed_mb}m "
        "gives it"
    )


def few_files(partitions: Mapping[Mode, int], flows: int, files: int | None) -> str:
    """Returns why so few open files do not suffice, and the next step; empty if they do.

    Args:
        partitions: Source partitions of the flows, by ``replication.mode``.
        flows: How many flows there are.
        files: The files that the driver may open; None without a limit.
    """
    continuous = partitions.get("realtime", 0)
    batched = min(sum(partitions.values()) - continuous, KEPT_CONSUMERS)
    needed = _files(continuous + batched, flows)
    if files is None or needed <= files:
        return ""
    return (
        f"{sum(partitions.values())} partitions take about {needed} open files, and a process of "
        f"this user may open {files}: raise the hard limit (ulimit -Hn; LimitNOFILE= of a systemd "
        "unit; nofile in /etc/security/limits.conf)"
    )


def most_continuous(heap_mb: int, flows: int = 1, files: int | None = None) -> int:
    """Returns the partitions that `auto` copies in Real-Time Mode on one machine.

    Args:
        heap_mb: The driver's heap.
        flows: How many flows there are.
        files: The files that the driver may open; None without a limit.
    """
    most = heap_mb // HEAP_MB_PER_TASK
    return most if files is None else min(most, (files - _files(0, flows)) // FILES_PER_TASK)


def _files(tasks: int, flows: int) -> int:
    return FILES_OF_A_DRIVER + FILES_PER_FLOW * flows + FILES_PER_TASK * tasks


def local_slots(partitions: Mapping[Mode, int], most: int) -> int:
    """Returns the task slots to start a local Spark with.

    Args:
        partitions: Source partitions of the flows, by ``replication.mode``.
        most: As `most_continuous` says. Where it is too small for Real-Time Mode, there are so few
            slots that `choose_mode` chooses micro-batches for ``auto``.
    """
    continuous = partitions.get("realtime", 0)
    batched = sum(partitions.get(mode, 0) for mode in BATCH_MODES)
    undecided = partitions.get("auto", 0)
    if continuous + undecided <= most:
        continuous += undecided
    else:
        batched += undecided
    growing = min(LOCAL_SLOTS_PER_PARTITION * continuous, max(continuous, most))
    return growing + min(batched, LOCAL_BATCH_SLOTS) + LOCAL_SPARE_SLOTS


def too_few_slots(slots: int, needs: Continuous) -> str:
    """Returns how many slots are missing, and the next step; empty if none is."""
    if slots >= needs.slots:
        return ""
    spare = needs.slots - needs.partitions - needs.sharing
    return (
        f"{needs.slots} task slots ({needs} and {spare} for bookkeeping), {slots} are available; "
        "add slots"
    )
