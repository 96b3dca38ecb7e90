"""The Spark session, with the settings that replication depends on."""

import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import RLock, Thread
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.utils import is_remote

from replication.config.client_keys import SPARK_REDACTION
from replication.config.home import (
    OUR_JAR,
    connector_jars,
    home,
    logging_option,
    storage_class_path,
)
from replication.errors import SetupError, first_line
from replication.java import JVM_GONE, java_class, known_class
from replication.log import Log
from replication.model import Source, is_local_mode, local_slots
from replication.spark.acknowledged import PLUGIN, PLUGINS, TAGS, is_on_class_path
from replication.spark.class_archive import archive_options
from replication.spark.doors import LOCAL_IP, PAGE, closed, open_doors
from replication.spark.hadoop import session_conf, set_hadoop_properties
from replication.spark.kafka_options import INTERCEPTOR
from replication.spark.mode import (
    MOST_TASKS,
    Sharing,
    choose_source,
    most_tasks,
    obstacle_to_sharing,
)

log = Log(__name__)

# Settings that are fixed when a Spark session starts: read back, because it may not be ours.


@dataclass(frozen=True, slots=True)
class _Static:
    """A setting, the only value that is safe, Spark's default, and what another value does."""

    name: str
    value: str
    default: str
    reason: str


STATIC = (
    _Static(
        "spark.task.maxFailures", "1", "4", "a failed task would be tried again within its batch"
    ),
    _Static("spark.speculation", "false", "false", "two tasks could write the same records"),
    _Static(
        "spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension",
        "",
        "the tables under state.dir are Delta tables",
    ),
)


def check_static_settings(spark: SparkSession) -> None:
    """Makes sure that the session has the static settings that replication rests on.

    Raises:
        SetupError: It was started with others; all of them are named.
    """
    conf = spark.sparkContext.getConf()
    lines = [
        f"\n  - {static.name} is {found or 'not set'}: {static.reason}; "
        f"set {static.name}={static.value} where the session is started"
        for static in STATIC
        if not _fits(static, found := str(conf.get(static.name, static.default)))
    ]
    if lines:
        raise SetupError(
            "the Spark session was started with settings that cannot be changed any more:"
            + "".join(lines)
        )


def _fits(static: _Static, found: str) -> bool:
    wanted = static.value.lower()
    return wanted in {part.strip().lower() for part in found.split(",")}


# The log of the driver's JVM: what Spark and Kafka's clients repeat is limited, and it ends first.
#
# Java does it (`jvm/plugin/LogLimit`), in the executors as well. Where our jar is missing, nothing
# is limited.


def limit_log(jvm: JVMView) -> None:
    """Limits lines that are repeated, from now on. A platform's own logging stays as it is."""
    if (found := _limit(jvm)) is None:
        return
    try:
        found.install()
    except Py4JError as error:  # another implementation of log4j's interface
        log.debug("log_not_limited", text=first_line(error))


def end_log(jvm: JVMView) -> None:
    """Writes what was counted, and then no line of the JVM: the process's own one is the last."""
    if (found := _limit(jvm)) is not None:
        found.endAll()


def _limit(jvm: JVMView) -> Any:  # noqa: ANN401 - py4j's own
    return known_class(jvm, "replication.plugin.LogLimit")


CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"

PACKAGES = {
    CONNECTOR: "the Kafka connector, package spark-sql-kafka-0-10",
    "org.apache.kafka.clients.producer.KafkaProducer": "the Kafka client, package kafka-clients",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": (
        "the connector's consumer pool, package commons-pool2"
    ),
    DELTA: "Delta Lake, package delta-spark",
    "io.delta.storage.LogStore": "Delta Lake's storage, package delta-storage",
}
"""The class that stands for each package, and the package's name."""


def check_packages(jvm: JVMView, packages: Mapping[str, str] = PACKAGES) -> None:
    """Makes sure that the driver can load the Kafka connector and Delta.

    Args:
        jvm: The driver's.
        packages: The class that stands for each package, and how an error names the package.

    Raises:
        SetupError: It cannot; the text names every missing package.
    """
    missing = [text for name, text in packages.items() if not is_loadable(jvm, name)]
    if missing:
        raise SetupError(
            f"Spark's class path lacks {'; '.join(missing)}. Pass the packages with --packages or "
            "their jars with --jars; spark-submit.sh does so"
        )


def check_interceptor(jvm: JVMView) -> None:
    """Makes sure that the driver can load the interceptor.

    Raises:
        SetupError: It cannot.
    """
    if not has_interceptor(jvm):
        raise SetupError(
            f"record.timestamps=preserve needs the class {INTERCEPTOR}, which is not on Spark's "
            "class path: pass replication.jar with --jars (spark-submit.sh does so), or "
            "set record.timestamps=broker"
        )


def has_interceptor(jvm: JVMView) -> bool:
    return is_loadable(jvm, INTERCEPTOR)


def is_loadable(jvm: JVMView, name: str) -> bool:
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        java_class(jvm, "java.lang.Class").forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True


# Most of an idle drain's CPU seconds would start Spark, which it does not need. Another job needs
# it only where its query starts: lease, topics and positions are asked of clusters and files.

Session: TypeAlias = "SparkSession | LateSession"


class LateSession:
    """The session of a process, or one made from it. Threads share it.

    Args:
        start: Makes the session; may raise an error, and is tried again then.
        has_begun: Whether the session is as good as made, because what it is made from has started.
    """

    def __init__(
        self, start: Callable[[], SparkSession], has_begun: Callable[[], bool] = lambda: False
    ) -> None:
        self._start = start
        self._has_begun = has_begun
        self._session: SparkSession | None = None
        self._lock = RLock()
        self._beside: Thread | None = None

    @classmethod
    def of(cls, spark: Session) -> "LateSession":
        """Returns *spark*, which may have started long ago."""
        return spark if isinstance(spark, LateSession) else cls(lambda: spark, lambda: True)

    @property
    def started(self) -> SparkSession | None:
        """The session, if Spark has started."""
        if self._session is None and self._has_begun():
            return self.get()
        return self._session

    def get(self) -> SparkSession:
        """Returns the session, which starts if nobody has needed it yet."""
        with self._lock:
            if self._session is None:
                self._session = self._start()
            return self._session

    def begin(self) -> None:
        """Starts Spark in a thread of its own. Whoever calls `get` waits for it."""

        def start() -> None:
            with suppress(Exception):  # whoever needs the session meets the same, and says it
                self.get()

        self._beside = Thread(target=start, name="spark start", daemon=True)
        self._beside.start()

    def await_begun(self) -> None:
        """Waits until what `begin` has begun is over: Spark cannot end while it starts."""
        if self._beside is not None:
            self._beside.join()

    def derived(self, make: Callable[[SparkSession], SparkSession]) -> "LateSession":
        """Returns another session of the same application, which *make* makes from this one."""
        return LateSession(lambda: make(self.get()), lambda: self.started is not None)


for _name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
    # PySpark prints each error of an expression on stderr, with its text, which may hold a secret.
    logging.getLogger(_name).disabled = True

_LOG4J2 = Path(__file__).resolve().parents[2] / "conf" / "log4j2.properties"
_QUIET = f" {logging_option(_LOG4J2)}" if _LOG4J2.exists() else ""  # not in a wheel

REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A retried or speculative task would write a partition's records twice and out of order.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    "spark.sql.adaptive.enabled": "false",
    # CAST(bigint AS binary), the carrier of timestamp and offset, is big-endian. ANSI SQL has none.
    "spark.sql.ansi.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark's own checkpoint is thrown away at each start, so the cheaper file manager is safe.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    # The data query has a scheduler pool of its own: small queries do not wait for its tasks.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}

EXECUTORS = {
    # Executors that have lost the driver end by themselves within 10 s (the plugin) or 15 s.
    "spark.executor.heartbeatInterval": "5s",
    "spark.executor.heartbeat.maxFailures": "3",
    # The driver gives up a silent executor after 30 s instead of 120 s.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "5s",
}
"""Of sessions with executors of their own. In local mode they would end a driver that was paused
(exit code 56) before it can say why it stops."""

SMALL_QUERIES = {
    # Compiling a query over a small table costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.stats.collect": "false",
}

BOUNDED = {
    # What Spark's pages keep in the driver's memory: it grows with partitions, for every batch.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",  # of one stage
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedProgressUpdates": "20",
    "spark.sql.streaming.ui.retainedQueries": "5",
}
"""Defaults of ours, unless the user sets them."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Of JVMs that run for minutes: it halves the CPU seconds of a start. By default this compiler gets
48 MB for its code. Spark and Delta fill them, and then it drops code and compiles it again."""

OTHER_SPARKS = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
)
"""Variables that would start another Spark, or the same one with other arguments."""

LOCAL = {PAGE: "false", "spark.redaction.regex": SPARK_REDACTION}


def session(app: str) -> SparkSession:
    """Returns the session of a submitted job. spark-submit sets master, jars and memory."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    given = _given_conf()
    is_local = is_local_mode(given.get("spark.master"))
    executors = {} if is_local else EXECUTORS
    defaults = {**BOUNDED, "spark.redaction.regex": SPARK_REDACTION, **_closed_doors(given)}
    if is_local and LOCAL_IP not in os.environ:
        defaults[PAGE] = "false"  # it would listen on every interface
    bounded = {key: value for key, value in defaults.items() if not given.contains(key)}
    for key, value in {**REQUIRED, **executors, **bounded, **TAGS, **_plugins()}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def _closed_doors(given: SparkConf) -> dict[str, str]:
    master = given.get("spark.master")
    if master and master.startswith("yarn") and given.get("spark.submit.deployMode") == "cluster":
        return {}  # YARN has started this process with a secret or without one
    return closed(master, dict(given.getAll()))


def warn_of_open_doors(spark: SparkSession) -> None:
    """Logs what strangers could do to the processes of *spark*."""
    context = spark.sparkContext
    for text in open_doors(context.master, dict(context.getConf().getAll()), os.environ):
        log.warning("door_open", text=text)


SparkStart = Literal["before", "beside", "when needed"]
"""When the session of a job starts: before anything else, or beside the job's first steps, or only
when something needs it."""


@contextmanager
def job_session(
    app: str,
    hadoop: Mapping[str, str],
    check: Callable[[SparkSession], None],
    wanted: SparkStart = "before",
) -> Iterator[LateSession]:
    """Yields the session of a job, for the block. One that was there before outlives it.

    Args:
        app: The application's name.
        hadoop: Hadoop's properties for the state directory.
        check: Is called with the session once it has started.
        wanted: When it starts. Other machines cannot wait for it: YARN gives up a driver that
            starts no session, and executors take a while to come.
    """
    is_ours = SparkContext._active_spark_context is None  # noqa: SLF001 - it has no public name

    def start() -> SparkSession:
        began = time.monotonic()
        spark = session(app)
        log.info("spark_started", seconds=round(time.monotonic() - began, 1))
        if is_ours:  # a platform that starts sessions has a network of its own
            ending.callback(spark.stop)
            warn_of_open_doors(spark)
        set_hadoop_properties(spark, hadoop)
        check(spark)
        return spark

    with ExitStack() as ending:
        late = LateSession(start)
        if wanted == "before" or not is_ours or not is_local_mode(driver_master()):
            late.get()
        elif wanted == "beside":
            ending.callback(late.await_begun)
            late.begin()
        yield late


def check_classic() -> None:
    """Makes sure that this process has a JVM of Spark's beside it.

    Raises:
        SetupError: It has Spark Connect, as on serverless compute.
    """
    if is_remote():
        raise SetupError(
            "this is Spark Connect, which gives no access to the driver's JVM: run the job on a "
            "classic cluster (Databricks: dedicated access mode, not serverless)"
        )


def has_own_realtime() -> bool:
    """Returns whether the platform's Spark has Real-Time Mode, whatever its version number says."""
    parameters = inspect.signature(DataStreamWriter.trigger).parameters
    return "DATABRICKS_RUNTIME_VERSION" in os.environ and "realTime" in parameters


def local_session(
    jars: Sequence[Path],
    slots: int,
    app: str,
    *,
    class_path: str = "",
    archive: tuple[str, str] | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Makes a session in this process, for commands and tests.

    Args:
        jars: The connector, Delta and our Java classes.
        slots: Task slots; at least one per partition of every Real-Time flow, and some more.
        app: The application's name in logs.
        class_path: Further jars, which are not copied: those of object storage are large.
        archive: Class path and options for another class archive than that of the set-up.
        settings: Further settings of Spark.
    """
    _use_own_spark()
    archived, java_options = archive_options() if archive is None else archive
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = f"local[{slots}]"
    builder = SparkSession.builder.master(master).appName(app)
    ours = {**REQUIRED, **BOUNDED, **LOCAL, **closed(master, settings)}
    for key, value in {**ours, PLUGINS: PLUGIN, **settings}.items():
        builder = builder.config(key, value)
    class_path = os.pathsep.join(filter(None, (archived, class_path)))
    builder = builder.config("spark.driver.extraClassPath", class_path).config(
        "spark.driver.extraJavaOptions", f"{QUICK_COMPILER}{_QUIET} {java_options}"
    )
    spark = builder.config("spark.jars", ",".join(map(str, jars))).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _use_own_spark() -> None:
    """Lets Python start the Spark that it has imported, whatever a shell's profile names."""
    ours = Path(inspect.getfile(SparkContext)).parents[1]
    if (ours / "bin" / "spark-submit").exists():  # installed by pip, and not a platform's
        os.environ["SPARK_HOME"] = str(ours)
    for name in OTHER_SPARKS:
        os.environ.pop(name, None)


def _plugins() -> dict[str, str]:
    """Returns ``spark.plugins``, with ours if its jar is there: Spark needs the class to start."""
    if not is_on_class_path(driver_jvm()):  # which exists before the session
        return {}
    given = _given_conf().get(PLUGINS, "")
    others = [name for name in given.split(",") if name and name != PLUGIN]
    return {PLUGINS: ",".join([*others, PLUGIN])}


def flow_session(spark: SparkSession) -> SparkSession:
    """Makes a session, of the same application, for one flow's query and settings of its own."""
    own = spark.newSession()
    for key, value in REQUIRED.items():
        if own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def small_query_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Returns a session of the same application for queries over small tables, with *settings*."""
    small = spark.newSession()
    for key, value in {**SMALL_QUERIES, **settings}.items():
        small.conf.set(key, value)
    return small


def jvm_of(spark: SparkSession) -> JVMView:
    """Returns py4j's view of the session's JVM, which has the clients of Kafka and Hadoop."""
    return spark.sparkContext._jvm  # noqa: SLF001 - it has no public name


def driver_jvm() -> JVMView:
    """Returns the driver's JVM, which is there before the session: spark-submit starts it first."""
    if SparkContext._jvm is None:  # noqa: SLF001 - it has no public name
        SparkContext._ensure_initialized()  # noqa: SLF001 - waits while a session starts
    return SparkContext._jvm  # noqa: SLF001


def has_jvm_ended() -> bool:
    """Returns whether the JVM that this process has had does not answer any more."""
    if (jvm := SparkContext._jvm) is None:  # noqa: SLF001 - it has no public name
        return False
    try:
        java_class(jvm, "java.lang.System").nanoTime()
    except JVM_GONE:
        return True
    except OSError:  # such as a lack of files, which says nothing of the JVM
        return False
    return False


def keep_gateway() -> None:
    """Lets this process connect to its JVM at any time, also after a lack of files has passed."""
    gateway = SparkContext._gateway  # noqa: SLF001 - it has no public name
    if (keeper := known_class(driver_jvm(), "replication.plugin.KeptGateway")) and gateway:
        with suppress(Py4JError):  # a platform's own server, which is no `GatewayServer`
            keeper.keep(gateway.java_gateway_server)


def _given_conf() -> SparkConf:
    """Returns the settings that spark-submit has given, with the driver's JVM."""
    driver_jvm()
    return SparkConf()


def driver_obstacle() -> str:
    """Returns why this process's flows cannot have the shared source; empty if they can."""
    is_there = partial(is_loadable, driver_jvm())
    return obstacle_to_sharing(is_there, (name for name, _ in _given_conf().getAll()))


def driver_master() -> str:
    """Returns the master of this process's application, which need not have started yet."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - it has no public name
    if context is not None and hasattr(context, "master"):  # one that starts lacks it for a moment
        return str(context.master)
    return _given_conf().get("spark.master", "") or ""


def slots_of(session: LateSession) -> int:
    """Returns the `task_slots` of *session*, which has not started where its master says them."""
    if session.started is None:
        conf = _given_conf()
        planned = local_slots(conf.get("spark.master", "") or "")
        if planned is not None:
            return planned // int(conf.get("spark.task.cpus", "1") or "1")
    return task_slots(session.get())


def task_slots(spark: SparkSession) -> int:
    """Returns how many tasks can run at once.

    Asked of the scheduler, which counts the cores of the executors that live now, by
    ``spark.task.cpus``. ``spark.default.parallelism`` is a wish, and 0 is an answer: executors may
    not have come yet.
    """
    return int(_slot_counter(spark.sparkContext)())


@lru_cache(maxsize=1)
def _slot_counter(context: SparkContext) -> Callable[[], Any]:
    """Returns what counts the slots of *context* by one call; a running flow asks all the time."""
    java: Any = context._jsc.sc()  # noqa: SLF001 - it has no public name
    profile = java.resourceProfileManager().defaultResourceProfile()
    count = partial(java.maxNumConcurrentTasks, profile)
    if not is_local_mode(context.master):
        return count
    slots = count()  # threads of this process, which neither come nor go
    return lambda: slots


def sharing_of(
    spark: SparkSession, wanted: Source, tasks_max: int | None, brokers: int
) -> Sharing | None:
    """Returns how tasks share the partitions of a read of what is there; None by Spark's source.

    Args:
        spark: The session.
        wanted: ``replication.source``.
        tasks_max: ``tasks.max``; None if the file does not say it.
        brokers: How many the cluster has.
    """
    if choose_source(wanted, driver_obstacle()).source == "spark":
        return None
    cores = task_cores(spark) or MOST_TASKS  # executors may not have come yet
    return Sharing(most_tasks(cores, tasks_max), brokers)


def task_cores(spark: SparkSession) -> int:
    """Returns how many tasks can work at once: on one machine there are more slots than cores."""
    slots = task_slots(spark)
    return min(slots, os.cpu_count() or 1) if is_local_mode(spark.sparkContext.master) else slots


SCHEME: Final = "plain"
FILE_SYSTEM: Final = "replication.plugin.PlainFiles"


def temporary_folder(spark: SparkSession) -> str | None:
    """Returns Java's folder for temporary files, chosen by a platform; None if it is not here.

    Python's is ``/tmp`` where nothing is said, and systems delete what has been there for ten days.
    """
    folder = str(jvm_of(spark).java.lang.System.getProperty("java.io.tmpdir"))
    return folder if Path(folder).is_dir() else None


def checkpoint_location(spark: SparkSession, folder: Path) -> str:
    """Returns the option ``checkpointLocation`` for *folder*, which is on the driver's machine.

    With our jar the files are written by `FILE_SYSTEM`, in a tenth of the time that Hadoop takes.
    """
    if not is_on_class_path(jvm_of(spark)):
        return f"file:{folder}"
    session_conf(spark).set(f"fs.{SCHEME}.impl", FILE_SYSTEM)
    return f"{SCHEME}:{folder}"  # not `as_uri`: Hadoop does not decode the escapes of a URI


def spark_jars() -> list[Path]:
    """Returns the jars that Spark needs besides its own, from the set-up's folder.

    Raises:
        SetupError: There are none.
    """
    jars = connector_jars()
    if not jars or not OUR_JAR.exists():
        raise SetupError(f"no JVM jars under {home()}: run ./spark-submit.sh --setup first")
    return [*jars, OUR_JAR]


@contextmanager
def local_spark(hadoop: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields a small Spark session with Hadoop's properties *hadoop*, which ends with the block.

    One that was there before is used, and outlives it.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - it has no public name
        yield SparkSession.builder.getOrCreate()
        return
    with _silent_stderr():
        spark = local_session(
            spark_jars(), 2, "replication command line", class_path=storage_class_path()
        )
    try:
        set_hadoop_properties(spark, hadoop)
        yield spark
    finally:
        spark.stop()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards stderr, also that of processes started in the block.

    The JVM writes warnings there before any logging is configured. Its failures reach Python.
    """
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
