"""What the executors report of each acknowledged record, taken from the plugin in Spark's driver.

The plugin (``replication.Acknowledgements``, in our jar) also knows which executors
may still write: one whose driver is silent ends by itself, and the driver counts the same time.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from replication.java import known_class
from replication.model import Flow, TopicPartition
from replication.offsets.pending import Copied, LeftOut, RecordRejection, Report
from replication.offsets.runs import OffsetRun
from replication.spark.kafka_options import limits_text

PLUGIN: Final = "replication.Acknowledgements"
PLUGINS: Final = "spark.plugins"
DRIVER_REPORTS: Final = "replication.plugin.DriverReports"
"""The class of the plugin's half in the driver."""

GENERATION_PROPERTY: Final = "replication.generation.token"
SPACING_PROPERTY: Final = "replication.spacing"
LIMITS_PROPERTY: Final = "replication.limits"
SCHEMAS_PROPERTY: Final = "replication.schemas"

TAGS: Final = {GENERATION_PROPERTY: "of each generation"}
"""Settings of a session: its event log hides the values of task properties that are also settings,
and have the name of a secret. A query would put a setting that begins with ``spark`` in the place
of the task's property."""

NOT_REPORTED: Final = (
    f"this Spark session runs without the plugin {PLUGIN}: the offset map learns of records when "
    "their batch ends, and a lost executor is found by counting; start the session with "
    f"{PLUGINS}={PLUGIN} and replication.jar in spark.jars"
)
"""What the log says at the start where executors cannot report."""

POLL_SECONDS = 0.05

_CALLS: Final = count(1)
"""Numbers of calls that take what they return."""


def is_on_class_path(jvm: Any) -> bool:  # noqa: ANN401 - py4j's own view of a JVM
    """Returns whether the driver's *jvm* can load the plugin."""
    return known_class(jvm, PLUGIN) is not None


def is_reported(spark: SparkSession) -> bool:
    """Returns whether the executors of this session report what they write."""
    driver = _driver(spark)
    return driver is not None and bool(driver.isLoaded())


@contextmanager
def generation_tag(
    spark: SparkSession,
    flow: Flow,
    number: int,
    *,
    spacing: int = 0,
    limits: Mapping[str, int],
    schemas: str = "",
) -> Iterator[None]:
    """Tags the tasks of a query that is started in the block, for the interceptor.

    The tag of a generation that `Acknowledged` has opened has its token, which Python never sees.

    Args:
        spark: The session that starts the query, in this thread.
        flow: Whose generation it is.
        number: Of the generation.
        spacing: Records between two borders of the map where the source has gaps; 0 for every gap.
        limits: As in `limits_text`; empty for topics that take every batch.
        schemas: Which records carry ids of schemas, as `SchemaIds` reads it; "" for none.
    """
    context: Any = spark.sparkContext  # its stubs lack None, which removes a property
    driver: Any = _driver(spark)
    tags = {GENERATION_PROPERTY: f"{flow}#{number}", SPACING_PROPERTY: str(spacing)}
    if limits:
        tags[LIMITS_PROPERTY] = limits_text(limits)
    if schemas:
        tags[SCHEMAS_PROPERTY] = schemas
    for name, value in tags.items():
        context.setLocalProperty(name, value)
    if driver is not None:
        driver.tag(context._jsc.sc(), tags[GENERATION_PROPERTY])  # noqa: SLF001 - Java's own
    try:
        yield
    finally:
        for name in tags:
            context.setLocalProperty(name, None)


class Acknowledged:
    """The runs that executors report for one generation; `close` it.

    Args:
        spark: The session that runs the generation's query.
        flow: Whose generation it is.
        number: Its number.
    """

    def __init__(self, spark: SparkSession, flow: Flow, number: int) -> None:
        self._name = f"{flow}#{number}"
        self._driver: Any = _driver(spark)
        # py4j asks Java for a static method whenever it is named
        self._take = self._driver.take
        self._is_quiet = self._driver.isQuiet
        self._call = next(_CALLS)
        self._driver.open(self._name)

    def is_quiet(self, query: Any, newest: str) -> bool:  # noqa: ANN401 - a Java object
        """Returns whether there is no report, nor an event of *query* after *newest*.

        The *query* runs.

        Args:
            query: Java's object of the generation's query.
            newest: As `QueryProgress.newest`.
        """
        return bool(self._is_quiet(query, newest, self._name))

    def take(self) -> Iterator[tuple[TopicPartition, Report | Copied | RecordRejection | LeftOut]]:
        """Yields what was reported since the last call, oldest first.

        Yields:
            A remote partition, and its new runs, their figures, a record of it that the target
            rejected, or where a batch leaves it out.
        """
        lines = str(self._take(self._name, self._call)).splitlines()
        self._call = next(_CALLS)  # where it has failed, the next one gets what it had taken
        for line in lines:
            kind, topic, partition, rest = line.split("\t", 3)
            yield TopicPartition(topic, int(partition)), _PARSERS[kind](rest)

    def close(self) -> None:
        """Drops what is reported from now on."""
        self._driver.close(self._name)


def _copied(text: str) -> Copied:
    return Copied(*map(int, text.split(",")))


def _report(text: str) -> Report:
    runs, syncs = text.split("\t")
    return Report(
        [OffsetRun(*map(int, run.split(","))) for run in runs.split(";") if run],
        tuple(int(sync) for sync in syncs.split(",") if sync),
    )


def _rejection(text: str) -> RecordRejection:
    offset, reason = text.split("\t")
    return RecordRejection(int(offset), reason)


def _left_out(text: str) -> LeftOut:
    batch, offset, _ = text.split(",", 2)
    return LeftOut(int(batch), int(offset))


_PARSERS: Final[Mapping[str, Callable[[str], Report | Copied | RecordRejection | LeftOut]]] = {
    "runs": _report,
    "copied": _copied,
    "rejected": _rejection,
    "left": _left_out,
}


def await_silence(
    spark: SparkSession, flow: Flow, seconds: float, *, gives_up: bool = False
) -> str:
    """Waits until no executor can write for *flow* any more, up to *seconds*.

    Executors that are lost but may still live are waited for until they must have ended.

    Args:
        spark: The session whose executors write.
        flow: Must not be running.
        seconds: How long to wait.
        gives_up: Whether executors give up what they have in flight.

    Returns:
        Which executors may still write, and why; empty if none.
    """
    driver: Any = _driver(spark)
    since = driver.now()
    if gives_up:
        driver.abandon(str(flow))
    deadline = time.monotonic() + seconds
    while (writers := str(driver.mayWrite(str(flow), since))) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)  # executors report on their own schedule
    return writers


def await_heard(spark: SparkSession, seconds: float) -> None:
    """Waits until each executor that lives has had an answer made from now on, up to *seconds*."""
    driver: Any = _driver(spark)
    since, deadline = driver.now(), time.monotonic() + seconds
    while not driver.haveReported(since) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)  # executors report on their own schedule


class Flying(NamedTuple):
    """What a flow that does not run has on its way to the target.

    Args:
        writers: Which executors may still write to partitions that somebody asks for, and why;
            empty if none.
        held: The other remote partitions to which records are on their way.
    """

    writers: str = ""
    held: frozenset[TopicPartition] = frozenset()


def await_silence_of(
    spark: SparkSession, flow: Flow, partitions: Collection[TopicPartition], seconds: float
) -> Flying:
    """Waits as `await_silence` does, until no executor can write to the remote *partitions*.

    What is on its way to others does not matter to them: a broker that is silent would hold up all.
    """
    driver: Any = _driver(spark)
    since, deadline = driver.now(), time.monotonic() + seconds
    while writers := str(driver.mayWrite(str(flow), since)):
        lines = (line.split("\t") for line in str(driver.held(str(flow), since)).splitlines())
        held = frozenset(TopicPartition(topic, int(number)) for topic, number in lines)
        if held and held.isdisjoint(partitions):
            return Flying(held=held)
        if time.monotonic() >= deadline:
            return Flying(writers)
        time.sleep(POLL_SECONDS)  # executors report on their own schedule
    return Flying()


def _driver(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j's own
    """Returns the plugin's driver half; None where its jar is not on the driver's class path."""
    return known_class(spark._jvm, DRIVER_REPORTS)  # noqa: SLF001 - the way to Java classes
