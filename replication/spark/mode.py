"""Which of Spark's ways to run a flow's query is used. Pure (design.md, D2)."""

from dataclasses import dataclass

from replication.errors import FlowError
from replication.model import Mode

REALTIME_SINCE = (4, 2)
"""Real-Time Mode came with Spark 4.1; its Kafka source has its present form since 4.2."""

BOOKKEEPING_SLOTS = 2
"""Task slots kept free of Real-Time tasks: Delta writes and reads, counting after a crash."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A mode and why."""

    mode: Mode
    reason: str


def choose_mode(wanted: Mode, *, spark: str, slots: int, partitions: int) -> Choice:
    """The mode to run in.

    Args:
        wanted: ``replication.mode``; only ``auto`` leaves a choice.
        spark: Spark's version, e.g. ``4.2.0``.
        slots: Task slots of the application.
        partitions: Source partitions of all its flows that may run in Real-Time Mode, since each
            holds a slot for the whole batch.

    Raises:
        FlowError: ``realtime`` was asked for and cannot be had. With too few slots some
            partitions would not be read at all, and Spark does not say so.
    """
    if wanted in {"microbatch", "drain"}:
        return Choice(wanted, "as configured")
    obstacle = _obstacle(spark, slots, partitions)
    if obstacle is None:
        return Choice("realtime", f"{slots} task slots suffice for {partitions} partitions")
    if wanted == "realtime":
        raise FlowError(f"replication.mode=realtime is impossible: {obstacle}; use auto")
    return Choice("microbatch", obstacle)


def _obstacle(spark: str, slots: int, partitions: int) -> str | None:
    if tuple(int(part) for part in spark.split(".")[:2]) < REALTIME_SINCE:
        return f"Spark {spark} has no Real-Time Mode for Kafka, 4.2 has"
    needed = partitions + BOOKKEEPING_SLOTS
    if slots < needed:
        return (
            f"it takes {needed} task slots ({partitions} partitions and {BOOKKEEPING_SLOTS} for "
            f"bookkeeping), there are {slots}"
        )
    return None
