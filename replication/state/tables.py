"""The Delta tables under the state directory: offset maps, events, topics, checkpoints, leases.

Append-only and partitioned by flow. A failure to read or write is a `StateError`. It costs no
record: the next start recovers its positions from the last rows and the target's log.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from datetime import datetime, timezone
from threading import Lock
from typing import Any

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from replication.errors import StateError
from replication.log import Log
from replication.model import EventKind, EventPolicy, Flow, NewEvent
from replication.spark.frames import frame_of
from replication.spark.local import local_spark
from replication.spark.session import jvm_of, small_query_session
from replication.state.commit_lock import hold_commit_lock
from replication.state.delta_reader import can_reach
from replication.state.delta_writer import append_rows
from replication.state.paths import local_path
from replication.state.schemas import SCHEMAS, SESSION_SETTINGS

log = Log(__name__)

_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")

OPTIMIZE_EVERY_APPENDS = 100
APPEND_ATTEMPTS = 5
CONFLICT = "io.delta.exceptions.DeltaConcurrentModificationException"


class Tables:
    """All tables of one state directory. Reads see every earlier write of any process.

    Args:
        spark: The session of the process.
        state_dir: A path or URI.
        optimize_every: After so many appends by this process, a table's small files are merged.
    """

    def __init__(
        self, spark: SparkSession, state_dir: str, optimize_every: int = OPTIMIZE_EVERY_APPENDS
    ) -> None:
        self._optimize_every = optimize_every
        self.spark = small_query_session(spark)
        for key, value in SESSION_SETTINGS.items():
            self.spark.conf.set(key, value)
        self._appends: Counter[str] = Counter()
        self._unwritten_events: list[dict[str, Any]] = []
        self._events_lock = Lock()
        self.leases: set[str] = set()  # names of the leases that this process holds
        self.check: Callable[[], None] = lambda: None
        self.root = state_dir.rstrip("/")
        self._folder = local_path(self.root)
        # Hadoop does not decode the escapes of a URI: %20 would become a folder's name
        self._location = f"file:{self._folder}" if self._folder else self.root

    def guarded(self, check: Callable[[], None]) -> "Tables":
        """The same tables for the holder of a lease: each append calls *check*, too."""
        earlier = self.check

        def both() -> None:
            earlier()
            check()

        guarded = copy(self)
        guarded.check = both
        return guarded

    def path(self, table: str) -> str:
        """The folder of *table*, as SQL takes it: ``delta.`path` ``."""
        return f"{self._location}/{table}"

    def exists(self, table: str) -> bool:
        """Whether anything was ever appended to *table*."""
        context = self.spark.sparkContext
        jvm = jvm_of(self.spark)
        log_folder = jvm.org.apache.hadoop.fs.Path(f"{self.path(table)}/_delta_log")
        with self.state_errors("find", table):
            files = log_folder.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
            return bool(files.exists(log_folder))

    def append(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends *rows* in one commit: all of them or none.

        Args:
            table: A key of `SCHEMAS`.
            rows: Columns by name; an absent one is null.
        """
        values = list(rows)
        if not values:
            return
        with self.committing("append to", table):
            for attempt in range(1, APPEND_ATTEMPTS + 1):
                try:
                    self._write(table, values)
                    break
                except Py4JJavaError as error:
                    # two processes on storage without locks created the table at the same moment
                    if attempt == APPEND_ATTEMPTS or CONFLICT not in _classes(error.java_exception):
                        raise
        self._appends[table] += 1
        if self._appends[table] % self._optimize_every == 0:
            self.optimize(table)

    def _write(self, table: str, values: Sequence[Mapping[str, Any]]) -> None:
        if self._folder is not None and can_reach(self.root):
            append_rows(self._folder / table, values, SCHEMAS[table])
            return
        frame = frame_of(self.spark, values, SCHEMAS[table]).coalesce(1)
        writer = frame.write.format("delta").mode("append").partitionBy("flow")
        writer = writer.option("mergeSchema", "true")  # a table of an earlier version
        writer.save(self.path(table))

    def delete(self, table: str, condition: str) -> None:
        """Deletes the rows of *table* that meet an SQL *condition*."""
        if self.exists(table):
            self._commit("delete rows of", table, f"DELETE FROM {{table}} WHERE {condition}")  # noqa: S608

    def properties(self, table: str) -> dict[str, str]:
        """The properties of *table*, which exists."""
        return dict(self._detail(table)["properties"])

    def created_at(self, table: str) -> datetime:
        """When *table*, which exists, was created."""
        created: datetime = self._detail(table)["createdAt"]  # naive and local
        return created.astimezone(timezone.utc)

    def _detail(self, table: str) -> Row:
        with self.state_errors("read", table):
            return self._sql(table, "DESCRIBE DETAIL {table}").collect()[0]

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Sets *properties* of *table* in one commit; the others stay."""
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self._commit("alter", table, f"ALTER TABLE {{table}} SET TBLPROPERTIES ({pairs})")

    def vacuum(self, table: str) -> None:
        """Removes files that *table* no longer holds. Nothing is committed, and nobody waits."""
        with self.state_errors("vacuum", table):
            self._sql(table, "VACUUM {table}").collect()

    def _sql(self, table: str, sql: str) -> DataFrame:
        """What *sql* gives, in which ``{table}`` stands for *table*."""
        return self.spark.sql(sql.replace("{table}", f"delta.`{self.path(table)}`"))

    def _commit(self, verb: str, table: str, sql: str) -> None:
        with self.committing(verb, table):
            self._sql(table, sql).collect()

    def optimize(self, table: str) -> None:
        """Merges the small files of many appends, which make every read slow."""
        try:
            self._commit("optimize", table, "OPTIMIZE {table}")
        except StateError as error:  # another process was first, or the next attempt succeeds
            log.warning("optimize_failed", table=table, text=error)

    @contextmanager
    def committing(self, verb: str, table: str) -> Iterator[None]:
        """Calls `check`; then no other process of this machine commits to *table* in the block.

        Raises:
            StateError: Of `state_errors`, or the table is locked for too long.
        """
        self.check()
        with ExitStack() as held:
            if self._folder:
                try:
                    held.enter_context(
                        hold_commit_lock(self._folder / "_locks" / f"{table}.commit")
                    )
                except StateError as error:
                    raise self._error(verb, table, str(error)) from error
            held.enter_context(self.state_errors(verb, table))
            yield

    def record_event(
        self,
        flow: Flow,
        kind: EventKind,
        text: str,
        *,
        policy: EventPolicy,
        **details: str | int,
    ) -> None:
        """Records one event, as `record_events` does."""
        self.record_events(flow, [NewEvent(kind, text, policy, details)])

    def record_events(self, flow: Flow, events: Iterable[NewEvent]) -> None:
        """Appends a row to ``events`` for each of *events*, in one commit, and logs it.

        Rows that cannot be written are kept and written with the next ones: what the events are
        about must not become worse because of it.
        """
        rows: list[dict[str, Any]] = []
        for event in events:
            columns = {"policy": event.policy, **event.details}
            log.warning(event.kind.replace("-", "_"), flow=flow, text=event.text, **columns)
            own = {"flow": str(flow), "at": now(), "kind": event.kind, "text": event.text}
            rows.append({**own, **columns})
        if not rows:
            return
        with self._events_lock:
            self._unwritten_events += rows
            try:
                self.append("events", self._unwritten_events)
            except StateError as error:
                kinds = ", ".join(sorted({row["kind"] for row in rows}))
                log.warning("event_not_written", flow=flow, kind=kinds, text=error)
            else:
                self._unwritten_events.clear()

    def read(self, table: str) -> DataFrame:
        """The whole *table*; empty if nothing was ever appended to it."""
        if not self.exists(table):
            return frame_of(self.spark, [], SCHEMAS[table])
        with self.state_errors("read", table):
            return self.spark.read.format("delta").load(self.path(table))

    def of(self, table: str, flow: Flow | str) -> DataFrame:
        """The rows of *flow* in *table*."""
        return self.read(table).where(F.col("flow") == str(flow))

    def collect(self, frame: DataFrame, table: str) -> list[Row]:
        """The rows of *frame*, which is a query over *table*."""
        with self.state_errors("read", table):
            return frame.collect()

    @contextmanager
    def state_errors(self, verb: str, table: str) -> Iterator[None]:
        """Turns errors of Spark and delta-rs into a `StateError` that names *table*."""
        try:
            yield
        except (DeltaError, OSError) as error:
            raise self._error(verb, table, str(error).strip().splitlines()[0]) from error
        except (PySparkException, Py4JJavaError) as error:
            # the last cause is the operating system's: no space, no permission
            own = error.java_exception.toString() if isinstance(error, Py4JJavaError) else ""
            causes = [own or str(error).strip(), *_CAUSE.findall(str(error))]
            reason = causes[-1].splitlines()[0]
            raise self._error(verb, table, reason) from error

    def _error(self, verb: str, table: str, reason: str) -> StateError:
        return StateError(
            f"cannot {verb} table {table} at {self.path(table)}: {reason}; "
            "check that state.dir exists, is writable and has space"
        )


def now() -> datetime:
    """The time now, in UTC, for the tables."""
    return datetime.now(timezone.utc)


def _classes(java: Any) -> Iterator[str]:  # noqa: ANN401 - a Java exception
    """The names of the class of *java* and of all its superclasses."""
    kind = java.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()


@contextmanager
def local_tables(state_dir: str, hadoop: Mapping[str, str]) -> Iterator[Tables]:
    """The tables of *state_dir*, through a session that ends with the block."""
    with local_spark(hadoop) as spark:
        yield Tables(spark, state_dir)
