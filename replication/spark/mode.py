"""Which of Spark's modes runs a flow's query, and how many task slots that takes. Pure."""

from dataclasses import dataclass

from replication.errors import FlowError
from replication.model import Mode

REALTIME_SINCE = (4, 2)
"""Real-Time Mode came with Spark 4.1; its Kafka source has its present form since 4.2."""

BOOKKEEPING_SLOTS = 2
"""Task slots kept free of Real-Time tasks: Delta writes and reads, counting after a crash."""

LOCAL_SLOTS_PER_PARTITION = 2
"""On one machine: the partitions may double while the job runs, and it stays in Real-Time Mode."""

LOCAL_SPARE_SLOTS = 8
"""On one machine: heartbeats, checkpoints and bookkeeping of several flows at once."""


class SlotsError(FlowError):
    """The task slots do not suffice for the configured mode."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A mode and why."""

    mode: Mode
    reason: str


def choose_mode(
    wanted: Mode, *, spark: str, slots: int, partitions: int, has_realtime: bool = False
) -> Choice:
    """The mode to run in.

    Args:
        wanted: ``replication.mode``; only ``auto`` leaves a choice.
        spark: Spark's version, e.g. ``4.2.0``.
        slots: Task slots of the application.
        partitions: Source partitions of all its flows that may run in Real-Time Mode, since each
            holds a slot for the whole batch.
        has_realtime: The platform's own Spark has Real-Time Mode under a lower version number.

    Raises:
        FlowError: ``realtime`` is configured and impossible; a `SlotsError` if only slots are
            missing. With too few slots Spark would leave some partitions unread, without an error.
    """
    if wanted in {"microbatch", "drain"}:
        return Choice(wanted, "as configured")
    old = "" if has_realtime else _old_spark(spark)
    obstacle = old or _too_few_slots(slots, partitions)
    if not obstacle:
        return Choice("realtime", f"{slots} task slots suffice for {partitions} partitions")
    if wanted == "realtime":
        error = FlowError if old else SlotsError
        raise error(f"replication.mode=realtime needs {obstacle}, or use auto")
    return Choice("microbatch", f"Real-Time Mode needs {obstacle}")


def local_slots(partitions: int) -> int:
    """The task slots to start a local Spark with, for flows of so many source *partitions*."""
    return LOCAL_SLOTS_PER_PARTITION * partitions + LOCAL_SPARE_SLOTS


def _old_spark(spark: str) -> str:
    """What is missing in Spark's version, and the next step; empty if nothing is."""
    if tuple(int(part) for part in spark.split(".")[:2]) < REALTIME_SINCE:
        return f"Spark 4.2, this is Spark {spark}; upgrade Spark"
    return ""


def _too_few_slots(slots: int, partitions: int) -> str:
    """How many slots are missing, and the next step; empty if none is."""
    needed = partitions + BOOKKEEPING_SLOTS
    if slots < needed:
        return (
            f"{needed} task slots ({partitions} partitions and {BOOKKEEPING_SLOTS} for "
            f"bookkeeping), {slots} are available; add slots"
        )
    return ""
