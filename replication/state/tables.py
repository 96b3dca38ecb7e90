"""The Delta tables under the state directory: offset maps, events, topics, checkpoints, leases.

Append-only. A failure to read or write is a `StateError`. It costs no
record: the next start recovers its positions from the last rows and the target's log.
"""

import re
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replication.config.state_access import StateAccess
from replication.errors import StateError, first_line
from replication.figures.lag import steady
from replication.log import Log
from replication.log_events import Event
from replication.model import EventDetails, EventKind, Flow, LossCause, NewEvent, Reaction
from replication.spark.hadoop import session_conf
from replication.spark.session import LateSession, Session, jvm_of, local_spark, small_query_session
from replication.state.delta import DeltaReader, delta_table
from replication.state.files import HadoopFiles, LocalFiles, RequestFiles, files_without_java
from replication.state.folder import StateFolder, local_path
from replication.state.locks import hold_commit_lock
from replication.state.schemas import (
    FORGOTTEN,
    LOST_IN_SPARK,
    SCHEMAS,
    SESSION_SETTINGS,
    DamagedTableError,
    KnownTables,
    LostTableError,
    ValueT,
    asked_again,
    odd_rows,
    state_error,
    table_errors,
)
from replication.state.spark_writer import SparkTable
from replication.state.storage import Storage, storage_for
from replication.state.stored_table import Before, Query, Replacement, StoredTable
from replication.state.table_reader import StateReader

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11

log = Log(__name__)

# What a process has written to the tables since it began, counted beside the writing.

LAST: Final = 50
"""Events of a flow that are kept."""


@dataclass(slots=True)
class EventCounts:
    """The events of one flow.

    Attributes:
        kinds: How many there are of each kind.
        given_up: Source offsets lost or repeated by decisions, by cause.
        given_up_at: When the last such decision was, in `steady` time, by cause; also of those
            whose offsets nobody can count.
        letters: How many dead letters wait; None if that is not known.
        last: The last ones, each with its time in epoch seconds, the oldest first.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    given_up: Counter[LossCause] = field(default_factory=Counter)
    given_up_at: dict[LossCause, float] = field(default_factory=dict)
    letters: int | None = None
    last: deque[tuple[float, NewEvent]] = field(default_factory=lambda: deque(maxlen=LAST))


@dataclass(slots=True)
class WriteCounts:
    """The commits to one table: how many, how many failed, how long they took, the last failure.

    That is in `steady` time.
    """

    commits: int = 0
    failures: int = 0
    seconds: float = 0.0
    failed_at: float | None = None


class Counts:
    """The counts of one process. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: dict[Flow, EventCounts] = defaultdict(EventCounts)
        self._writes: dict[str, WriteCounts] = defaultdict(WriteCounts)

    def add_event(self, flow: Flow, event: NewEvent) -> None:
        """Counts *event* of *flow*."""
        with self._lock:
            counts, now = self._events[flow], time.time()
            counts.kinds[event.kind] += 1
            counts.last.append((now, event))
            if event.cause is not None:
                span = (event.details.get(key, 0) for key in ("offset_until", "offset_from"))
                until, start = map(int, span)
                counts.given_up[event.cause] += max(0, until - start)
                counts.given_up_at[event.cause] = steady()

    def set_letters(self, flow: Flow, waiting: int | None) -> None:
        """Notes how many dead letters of *flow* wait; None if that is unknown."""
        with self._lock:
            self._events[flow].letters = waiting

    @contextmanager
    def write(self, table: str) -> Iterator[None]:
        """Counts the commit to *table* that the block makes."""
        begun, failed = time.monotonic(), True
        try:
            yield
            failed = False
        finally:
            with self._lock:
                counts = self._writes[table]
                counts.commits += not failed
                counts.failures += failed
                counts.failed_at = steady() if failed else counts.failed_at
                counts.seconds += time.monotonic() - begun

    def events(self, flow: Flow) -> EventCounts:
        """Returns a copy of the counts of *flow*."""
        with self._lock:
            found = self._events[flow]
            last = deque(found.last, LAST)
            return replace(
                found,
                kinds=Counter(found.kinds),
                given_up=Counter(found.given_up),
                given_up_at=dict(found.given_up_at),
                last=last,
            )

    def writes(self) -> Mapping[str, WriteCounts]:
        """Returns a copy of the counts of each table that was written."""
        with self._lock:
            return {
                table: WriteCounts(found.commits, found.failures, found.seconds, found.failed_at)
                for table, found in self._writes.items()
            }


# A damaged table without positions is moved aside, so that its flow goes on with a new one.

EXPENDABLE: Final = frozenset({"events", "executions", "figures", "leases"})
"""Without their old rows no record is lost, repeated or translated wrongly."""

MARK: Final = ".damaged-"
SETTLE_SECONDS: Final = 1.0
"""How long a claim must stand before it counts: another process may be writing its own."""

ABANDONED_SECONDS: Final = 60.0
"""How long others wait for the end of a claim; its owner moves a few files."""

MOST_FAILURES: Final = 5
"""Of reads and writes for one claim; then it is the storage that fails."""


class LocalAside:
    """A table in a *folder* of this machine that may be moved aside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def alone(self) -> AbstractContextManager[None]:
        """Lets one thread at a time, of whichever process, into the block, by a kernel lock."""
        return hold_commit_lock(self._folder.parent / "_locks" / f"{self._folder.name}.aside")

    def move(self) -> str:
        """Gives the table's folder another name, and returns that."""
        return str(self._folder.rename(_new_name(str(self._folder))))

    def has_moved(self) -> bool:
        """Returns whether an earlier table of this name was moved, and is still there."""
        return any(self._folder.parent.glob(f"{self._folder.name}{MARK}*"))


class RemoteAside:
    """As `LocalAside`, at the URI *path*; object stores have neither locks nor renames.

    A claim is a small file with its owner's name. Of several that are written at once the last one
    stays, and each owner reads it again before it acts. Whoever acts looks at the table first.
    """

    def __init__(self, files: RequestFiles, path: str, settle_seconds: float) -> None:
        self._files = files
        self._path = path
        self._settle_seconds = settle_seconds
        root, _, table = path.rpartition("/")
        self._claim = f"{root}/_control/aside-{table}"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the claim, once its last owner has ended or was silent for long."""
        self._take(uuid.uuid4().hex)
        try:
            yield
        finally:
            with suppress(OSError, Py4JError):  # it is taken for abandoned then
                self._files.delete(self._claim)

    def move(self) -> str:
        """Renames the folder; an object store copies what is in it, and then deletes that."""
        name = _new_name(self._path)
        self._files.rename(self._path, name)
        return name

    def has_moved(self) -> bool:
        return bool(self._files.find(f"{self._path}{MARK}"))

    def _take(self, mine: str) -> None:
        other, since, failures = "", time.monotonic(), 0
        while True:
            try:
                found = self._files.read(self._claim)
                if found == mine:
                    return
                if found != other:
                    other, since = found, time.monotonic()
                if not found or time.monotonic() - since >= ABANDONED_SECONDS:
                    self._files.create(self._claim, mine)
            except (OSError, Py4JError):  # on HDFS, of two that write it one fails
                failures += 1
                if failures == MOST_FAILURES:
                    raise
            time.sleep(self._settle_seconds)


def _new_name(path: str) -> str:
    return f"{path}{MARK}{time.time_ns()}"


_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")

MOST_SMALL_FILES = 20
"""With this many, the files of a table are merged: each read opens all of them."""

LOOK_EVERY_APPENDS = 20
"""Of a table whose files are counted by a query; the first append of a process looks as well."""

MOST_UNWRITTEN_EVENTS = 10_000


class Tables:
    """All tables of one state directory. Reads see every earlier write of any process.

    Args:
        spark: The session of the process, which starts when a table needs it.
        state_dir: A path or URI.
        most_files: With this many small files, whoever wrote them, a table's files are merged.
        storage: How they are reached; by default as `storage_for` says of the path or URI.
    """

    def __init__(
        self,
        spark: Session,
        state_dir: str,
        most_files: int = MOST_SMALL_FILES,
        storage: Storage | None = None,
    ) -> None:
        self._most_files = most_files
        small = partial(small_query_session, settings=SESSION_SETTINGS)
        self.session = LateSession.of(spark).derived(small)
        self._appends: Counter[str] = Counter()
        self._unwritten_events: list[dict[str, Any]] = []
        self._events_lock = Lock()
        self.counts = Counts()  # for whoever shows them
        self.leases: set[str] = set()  # names of the leases that this process holds
        self.known = KnownTables()
        self.check: Callable[[], None] = lambda: None
        self.root = state_dir.rstrip("/")
        self.storage = storage or storage_for(StateAccess(state_dir))
        self._folder = local_path(self.root)
        self.state_folder = StateFolder(self._folder) if self._folder else None
        # Hadoop does not decode the escapes of a URI: %20 would become a folder's name
        self._location = f"file:{self._folder}" if self._folder else self.root

    @property
    def spark(self) -> SparkSession:
        """A session for small queries; Spark starts if it has not yet."""
        return self.session.get()

    def use_background(self) -> None:
        """Lets jobs of this thread wait for no long task of a replication query, nor delay it."""
        if (spark := self.session.started) is not None:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", "background")

    def guarded(self, check: Callable[[], None]) -> "Tables":
        """Returns the same tables for the holder of a lease: each append also calls *check*."""
        earlier = self.check

        def both() -> None:
            earlier()
            check()

        guarded = copy(self)
        guarded.check = both
        return guarded

    def begin_folder(self) -> None:
        """Makes a local state directory if this process has not used it yet; else checks it."""
        if self.state_folder is not None:
            self.state_folder.begin()

    def check_folder(self) -> None:
        """Makes sure that a local state directory has not disappeared since this process began.

        Raises:
            StateError: It has, and is not made anew.
        """
        if self.state_folder is not None:
            self.state_folder.check()

    def path(self, table: str) -> str:
        """Returns the folder of *table*, as SQL takes it: ``delta.`path` ``."""
        return f"{self._location}/{table}"

    def exists(self, table: str) -> bool:
        """Returns whether *table* was ever created."""
        self.check_folder()
        with self.state_errors("find", table):
            return self._stored(table).exists()

    def append(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends *rows* in one commit: all of them or none.

        Args:
            table: A key of `SCHEMAS`.
            rows: Columns by name; an absent one is null.
        """
        if not (values := list(rows)):
            return
        files = self.mended(table, values[0]["flow"], partial(self._append, table, values))
        if files is not None and files >= self._most_files:
            self.optimize(table, only_small=True)

    def create(self, table: str) -> None:
        """Creates *table* without a row; one that exists stays as it is."""
        if not self.exists(table):
            self._append(table, [])

    def _append(self, table: str, values: Sequence[Mapping[str, Any]]) -> int | None:
        """Appends; returns how many files that could be merged the table has, if it has looked."""
        with self.committing("append to", table):
            stored = self._stored(table)
            files = stored.append(values, SCHEMAS[table])
            self._appends[table] += 1
            if files is None and self._appends[table] % LOOK_EVERY_APPENDS == 1:
                files = stored.files()
            return files

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*, as `StoredTable.query` does."""
        ask = self.state_errors("read", table)(lambda: self._stored(table).query(sql))
        return asked_again(ask) if self.exists(table) else []

    def rewrite(
        self, table: str, condition: str, parts: Callable[[Query], Iterable[Replacement]], verb: str
    ) -> int:
        """Replaces the rows of *table* that meet *condition*, as `StoredTable.rewrite` does."""
        self.create(table)
        with self.committing(verb, table), odd_rows(table, self.path(table)):
            return self._stored(table).rewrite(condition, SCHEMAS[table], parts)

    def delete(self, table: str, condition: str, before: Before | None = None) -> None:
        """Deletes the rows of *table* that meet an SQL *condition* and, if given, *before*."""
        if self.exists(table):
            with self.committing("delete rows of", table):
                self._stored(table).delete(condition, before)

    def properties(self, table: str) -> dict[str, str]:
        with self.state_errors("read", table):
            return self._stored(table).properties()

    def created_at(self, table: str) -> datetime:
        with self.state_errors("read", table):
            return self._stored(table).created_at()

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        with self.committing("alter", table):
            self._stored(table).set_properties(properties)

    def update_properties(self, table: str) -> None:
        """Gives *table*, if an earlier version created it, the properties of new ones."""
        with self.state_errors("read", table):
            outdated = self._stored(table).outdated_properties()
        if outdated:
            self.set_properties(table, outdated)

    def vacuum(self, table: str) -> None:
        with self.committing("vacuum", table):
            self._stored(table).vacuum()

    def optimize(self, table: str, *, only_small: bool = False) -> None:
        """Merges the files of many appends, which make every read slow.

        Args:
            table: Whose files.
            only_small: Leave larger ones as they are, so that it takes milliseconds.
        """
        try:
            with self.committing("optimize", table):
                self._stored(table).merge_files(only_small=only_small)
        except StateError as error:  # another process was first, or the next attempt succeeds
            log.warning("optimize_failed", table=table, text=error)

    def _stored(self, table: str) -> StoredTable:
        if self.storage.is_quick:
            return delta_table(self.storage, table, self.known)
        return SparkTable(self.spark, self.path(table), self.known)

    @contextmanager
    def committing(self, verb: str, table: str) -> Iterator[None]:
        """Calls `check`; then no other process of this machine commits to *table* in the block.

        Raises:
            StateError: Of `state_errors`, or the table is locked for too long.
        """
        self.check()
        with ExitStack() as held:
            if self._folder:
                lock = hold_commit_lock(self._folder / "_locks" / f"{table}.commit")
                try:
                    self.begin_folder()
                    held.enter_context(lock)
                except StateError as error:
                    text = f"cannot {verb} table {table} at {self.path(table)}: {error}"
                    raise StateError(text) from error
            held.enter_context(self.counts.write(table))
            held.enter_context(self.state_errors(verb, table))
            yield

    def record_event(
        self,
        flow: Flow,
        kind: EventKind,
        text: str,
        *,
        reaction: Reaction,
        **details: "Unpack[EventDetails]",
    ) -> None:
        """Records one event, as `record_events` does."""
        self.record_events(
            flow, [NewEvent(kind, text, reaction, cast("Mapping[str, str | int]", details))]
        )

    def record_events(self, flow: Flow, events: Iterable[NewEvent]) -> None:
        """Appends a row to ``events`` for each of *events*, in one commit, and logs it.

        Rows that cannot be written are kept and written with the next ones: what the events are
        about must not become worse because of it.
        """
        rows: list[dict[str, Any]] = []
        for event in events:
            self.counts.add_event(flow, event)
            columns = {"reaction": event.reaction, **event.details}
            log.bind(flow).warning(_logged_as(event.kind), text=event.text, **columns)
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
                log.bind(flow).warning("event_not_written", kind=kinds, text=error)
                del self._unwritten_events[:-MOST_UNWRITTEN_EVENTS]  # the log has them all
            else:
                self._unwritten_events.clear()

    @contextmanager
    def state_errors(self, verb: str, table: str) -> Iterator[None]:
        """Turns errors of Spark and delta-rs into a `StateError` that names *table*."""
        path = self.path(table).removeprefix("file:")
        try:
            with table_errors(verb, table, path):
                yield
        except (PySparkException, Py4JJavaError) as error:
            # the last cause is the operating system's: no space, no permission
            own = error.java_exception.toString() if isinstance(error, Py4JJavaError) else ""
            causes = [own or str(error).strip(), *_CAUSE.findall(str(error))]
            reason = first_line(causes[-1])
            is_damaged = LOST_IN_SPARK.search(str(error)) is not None
            raise state_error(verb, table, path, reason, is_damaged=is_damaged) from error

    def mended(self, table: str, flow: Flow | str, attempt: Callable[[], ValueT]) -> ValueT:
        """Runs *attempt*, with a new *table* if it is damaged and holds no positions.

        The damaged one, unless it is gone, is kept beside it, and `events` gets a row.

        Args:
            table: What is read or appended to.
            flow: For whom; the event names it.
            attempt: Reads or appends; may be called three times.
        """
        try:
            return attempt()
        except DamagedTableError:
            if table not in EXPENDABLE:
                raise
        aside = self._aside(table)
        with ExitStack() as held:
            with self.state_errors("claim", table):
                held.enter_context(aside.alone())
            try:
                return self._anew(attempt)  # another thread was first
            except LostTableError as lost:
                text = f"{lost.what}; a new one begins: {FORGOTTEN[table]}"
            except DamagedTableError as damage:
                with self.state_errors("move aside", table):
                    text = f"{aside.move()} has the old one: {damage}"
            self.known.forget(table)
        name = str(flow).partition(" ")[0]  # of a lease may have the name of a part behind it
        log.bind(name).warning("table_damaged", table=table, text=text)
        row = {"flow": name, "at": now(), "kind": "table-damaged", "reaction": "restart"}
        write = partial(self._append, "events", [{**row, "text": text}])
        with suppress(StateError):  # it is in the log
            if table == "events":
                write()
            else:
                self.mended("events", flow, write)
        return self._anew(attempt)

    def _anew(self, attempt: Callable[[], ValueT]) -> ValueT:
        """Runs *attempt* without what Delta in the JVM remembers of tables."""
        if not self.storage.is_quick and (spark := self.session.started) is not None:
            jvm_of(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        return attempt()

    def _aside(self, table: str) -> LocalAside | RemoteAside:
        if self._folder:
            return LocalAside(self._folder / table)
        return RemoteAside(self.files(), self.path(table), SETTLE_SECONDS)

    def files(self) -> RequestFiles:
        """Returns the requests and marks beside the tables."""
        if self.state_folder is not None:
            return LocalFiles(self.state_folder.check)
        files = files_without_java(self.storage)
        return files or HadoopFiles(jvm_of(self.spark), session_conf(self.spark))

    def was_set_aside(self, table: str) -> bool:
        """Returns whether a damaged *table* lies aside, so that the new one lacks rows."""
        with self.state_errors("find", table):
            return self._aside(table).has_moved()


def _logged_as(kind: EventKind) -> Event:
    return cast("Event", kind.replace("-", "_"))  # a test compares the two


def now() -> datetime:
    return datetime.now(timezone.utc)


@contextmanager
def local_tables(storage: Storage) -> Iterator[Tables]:
    """Yields the tables of *storage*, through a session that ends with the block."""
    with local_spark(storage.access.hadoop) as spark:
        yield Tables(spark, storage.access.state_dir, storage=storage)


class SparkReader(StateReader):
    """Reads tables through Spark, for storage that only Spark can reach."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def path(self, table: str) -> str:
        return self._tables.path(table)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*; none if the table does not exist."""
        return self._tables.query(table, sql)


def reader_of(tables: Tables) -> StateReader:
    """Returns a reader of *tables* for a job: delta-rs where it reaches them, else Spark.

    A query of Spark's over a small table takes a task slot and hundreds of milliseconds.

    Raises:
        StateError: The state directory has disappeared.
    """
    tables.check_folder()  # of a folder that is gone, no row would be an answer
    if tables.storage.is_quick:
        return DeltaReader(tables.root, tables.storage, tables.known)
    return SparkReader(tables)


@contextmanager
def open_spark_reader(storage: Storage) -> Iterator[SparkReader]:
    """Yields a reader of *storage* with a Spark session of its own, which ends with the block."""
    with local_tables(storage) as tables:
        yield SparkReader(tables)
