"""What the executors report of each acknowledged record, taken from the plugin in Spark's driver.

The plugin (``replication.Acknowledgements``, in our jar) also knows which executors
may still write: one whose driver is silent ends by itself, and the driver counts the same time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, NamedTuple

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from replication.config.limits import Limit
from replication.figures.histogram import BOUNDS, Histogram
from replication.java import java_class, known_class
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

        Args:
            query: Java's object of the generation's query, which runs.
            newest: As `QueryProgress.newest`.
        """
        return bool(self._is_quiet(query, newest, self._name))

    def take(self) -> Iterator[tuple[TopicPartition, Report | Copied | RecordRejection | LeftOut]]:
        """Yields what was reported of each remote partition since the last call, oldest first.

        That are new runs, their figures, a record that the target rejected, or where a batch leaves
        the partition out.
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


# The limits of flows in the executors: set in the driver's JVM, which answers their reports.

NO_RATE: Final = -1
ALL_TOPICS: Final = "*"


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How a limit is used: over the last seconds, and whether records wait for it now."""

    bytes_per_second: float
    records_per_second: float
    is_waiting: bool


def set_limits(
    jvm: Any,  # noqa: ANN401 - py4j's own view of a JVM
    flow: Flow,
    limits: Iterable[tuple[Limit, Mapping[str, str]]],
) -> bool:
    """Sets all limits of *flow*; executors hear of them by the answers to their next reports.

    Args:
        jvm: The driver's.
        flow: Which.
        limits: Each with the upstream topics that it covers, and their remote ones; those of the
            limit of a whole flow do not count.

    Returns:
        Whether they are news.
    """
    lines = []
    for limit, topics in limits:
        rates = (limit.bytes_per_second or NO_RATE, limit.records_per_second or NO_RATE)
        pairs = sorted(f"{remote}:{upstream}" for upstream, remote in topics.items())
        names = ALL_TOPICS if limit.topics is None else ",".join(pairs)
        lines.append("\t".join((*map(str, rates), names)))
    return bool(java_class(jvm, DRIVER_REPORTS).limit(str(flow), "\n".join(lines)))


def pause_partitions(spark: SparkSession, flow: Flow, partitions: Iterable[TopicPartition]) -> bool:
    """Lets no task of *flow* read *partitions* from now on; takes back what was said before.

    For flows with the shared source. Executors hear of it with their next report, within half a
    second. Returns whether it is news.
    """
    lines = "".join(f"{tp.topic}\t{tp.partition}\n" for tp in sorted(partitions))
    pauses = java_class(spark._jvm, "replication.plugin.Pauses")  # noqa: SLF001
    return bool(pauses.pause(str(flow), lines))


def limit_uses(jvm: Any, flow: Flow) -> list[LimitUse]:  # noqa: ANN401 - as above
    """Returns how the limits of *flow* are used, in the order in which they were set."""
    return read_uses(java_class(jvm, DRIVER_REPORTS).limits(str(flow)))


def read_uses(limits: object) -> list[LimitUse]:
    """Returns what the text of ``DriverReports.limits`` says."""
    lines = str(limits).splitlines()
    return [
        LimitUse(float(size), float(count), int(waiting) > 0)
        for size, count, waiting in (line.split("\t") for line in lines)
    ]


JVM_FIGURES: Final = "replication.plugin.JvmFigures"
"""The class that tells it."""


@dataclass(frozen=True, slots=True)
class JvmUse:
    """The use since the JVM began.

    Args:
        heap: Bytes that are ``used``, and that may be used at most: ``max``.
        gc_seconds: Spent in collecting garbage.
        cpu_seconds: Of all threads.
    """

    heap: Mapping[str, float]
    gc_seconds: float
    cpu_seconds: float


def read_use(figures: object) -> JvmUse:
    """Returns what the text of ``JvmFigures.figures`` says."""
    used, most, collected_ms, cpu_ns = map(int, str(figures).split("\t"))
    return JvmUse({"used": used, "max": most}, collected_ms / 1e3, cpu_ns / 1e9)


# What the driver's JVM has added up of the executors' reports, for one flow.

LOOK_SECONDS: Final = 1.0
"""How long a look at all flows lasts at most, for which the JVM is asked once what it uses."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The reports of a flow's executors since the process began.

    Args:
        executors: How many live.
        silent_seconds: The longest time since one of them was heard.
        in_flight: Records that are sent and not acknowledged.
        tasks: Tasks that run.
        all_tasks: Those of all flows of the process.
        transfer: From handing over to acknowledgement; the longest is since the last call.
        latencies: From the timestamp to acknowledgement, of the remote topics that have changed
            since the last call; the same.
        throttles: How long a quota makes a request of a client wait, by ``client.id``, in seconds.
        use: What the driver's JVM uses; None if nobody asked it.
        limits: How the flow's limits are used, in the order in which they were set.
    """

    executors: int
    silent_seconds: float
    in_flight: int
    tasks: int
    all_tasks: int
    transfer: Histogram
    latencies: Mapping[str, Histogram] = field(default_factory=dict)
    throttles: Mapping[str, float] = field(default_factory=dict)
    use: JvmUse | None = None
    limits: tuple[LimitUse, ...] = ()


class ReportedFigures:
    """The reports of the executors of this process's Spark, if they report.

    Args:
        jvm: The driver's, in which Spark may start later.
    """

    def __init__(self, jvm: JVMView) -> None:
        driver = known_class(jvm, DRIVER_REPORTS)
        self._java = None if driver is None else _Java.of(driver, jvm)
        self._is_loaded = False
        self._use: tuple[float, JvmUse] | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether executors report: from the start of Spark to the end of the process."""
        if self._java is not None and not self._is_loaded:
            self._is_loaded = bool(self._java.is_loaded())
        return self._is_loaded

    def now(self) -> int:
        """Returns a time to give to `have_reported`."""
        return 0 if self._java is None else int(self._java.now())

    def have_reported(self, since: int) -> bool:
        """Returns whether each executor that lives has reported what it did up to *since*."""
        return self._java is None or bool(self._java.have_reported(since))

    def of(self, flow: Flow) -> Reported | None:
        """Returns what is known of *flow*; None if executors do not report."""
        if self._java is None or not self.is_loaded:
            return None
        found = parse(str(self._java.figures(str(flow))))
        limits = read_uses(self._java.limits(str(flow)))
        now = time.monotonic()  # the flows of one look are asked one after the other
        if self._use is None or now - self._use[0] >= LOOK_SECONDS:
            self._use = now, read_use(self._java.use())
        return replace(found, use=self._use[1], limits=tuple(limits))


class _Java(NamedTuple):
    """The methods that a look calls: py4j asks Java for a static one whenever it is named."""

    is_loaded: Callable[[], Any]
    now: Callable[[], Any]
    have_reported: Callable[[int], Any]
    figures: Callable[[str], Any]
    limits: Callable[[str], Any]
    use: Callable[[], Any]

    @classmethod
    def of(cls, driver: Any, jvm: JVMView) -> "_Java":  # noqa: ANN401 - py4j's own
        return cls(
            driver.isLoaded, driver.now, driver.haveReported, driver.figures, driver.limits,
            java_class(jvm, JVM_FIGURES).figures,
        )  # fmt: skip


def parse(text: str) -> Reported:
    """Returns what the *text* of ``DriverReports.figures`` says."""
    first, *others = (line.split("\t") for line in text.splitlines())
    executors, silent_ms, in_flight, tasks, all_tasks = map(int, first[1:])
    transfer, latencies, throttles = Histogram.of([0] * _BUCKETS, 0.0), {}, {}
    for kind, *fields in others:
        if kind == "transfer":
            transfer = _histogram(fields[0])
        elif kind == "latency":
            latencies[fields[0]] = _histogram(fields[1])
        else:
            throttles[fields[1]] = int(fields[0]) / 1000
    return Reported(
        executors, silent_ms / 1000, in_flight, tasks, all_tasks, transfer, latencies, throttles
    )


_BUCKETS: Final = len(BOUNDS) + 1


def _histogram(text: str) -> Histogram:
    micros, longest, *counted = text.split(",")
    buckets = [0] * _BUCKETS
    for each in counted:
        bucket, count = each.split(":")
        buckets[int(bucket)] = int(count)
    return Histogram.of(buckets, int(micros) / 1e6, int(longest) / 1e6)
