"""Which of Spark's modes runs a flow's query, and how many task slots that takes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replication.errors import FlowError
from replication.model import Mode

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
    old = "" if has_realtime else _old_spark(spark)
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


def _old_spark(spark: str) -> str:
    """Returns what is missing in Spark's version, and the next step; empty if nothing is."""
    if tuple(int(part) for part in spark.split(".")[:2]) < REALTIME_SINCE:
        return f"Spark 4.2, this is Spark {spark}; upgrade Spark"
    return ""


def too_few_slots(slots: int, needs: Continuous) -> str:
    """Returns how many slots are missing, and the next step; empty if none is."""
    if slots >= needs.slots:
        return ""
    spare = needs.slots - needs.partitions - needs.sharing
    return (
        f"{needs.slots} task slots ({needs} and {spare} for bookkeeping), {slots} are available; "
        "add slots"
    )
