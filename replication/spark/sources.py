"""Which Kafka source reads the records of a flow, and how many tasks share its partitions. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from replication.errors import SetupError
from replication.model import Mode, Source

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
        """How many queries it has."""
        return 2 if self.takes_turns else 1

    @property
    def slots(self) -> int:
        """How many task slots it holds."""
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
