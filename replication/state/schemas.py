"""What the Delta tables are created with, and whether a table is still one of them. Pure."""

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from deltalake.exceptions import CommitFailedError, DeltaError

from replication.errors import StateError, printable

SCHEMAS = {
    "offset_runs": (
        "flow string, generation bigint, topic string, partition int, topic_id string, "
        "src_from bigint, src_until bigint, tgt_from bigint, count bigint, "
        "first_batch bigint, last_batch bigint, written_at timestamp, source_epoch int, "
        "target_epoch int"
    ),
    "events": (
        "flow string, at timestamp, kind string, group string, topic string, partition int, "
        "offset_from bigint, offset_until bigint, reaction string, text string, cluster string"
    ),
    "topics": (
        "flow string, generation bigint, topic string, remote_topic string, topic_id string, "
        "remote_id string, partitions int, transform string, at timestamp"
    ),
    "clusters": "flow string, alias string, cluster_id string, at timestamp",
    "first_topics": (
        "flow string, topic string, topic_id string, partition int, end_offset bigint, at timestamp"
    ),
    "topic_configs": (
        "flow string, topic string, remote_topic string, remote_id string, key string, "
        "value string, previous string, rejection string, at timestamp"
    ),
    "topic_acls": (
        "flow string, action string, remote_topic string, pattern string, principal string, "
        "host string, operation string, permission string, rejection string, at timestamp"
    ),
    "topic_deletions": (
        "flow string, topic string, topic_id string, remote_topic string, remote_id string, "
        "state string, at timestamp"
    ),
    "schema_ids": (
        "flow string, topic string, part string, source_id bigint, target_id bigint, type string, "
        "hash string, subject string, version int, at timestamp"
    ),
    "dead_letters": (
        "flow string, topic string, topic_id string, partition int, source_offset bigint, "
        "state string, stage string, reason string, place string, is_read boolean, "
        "timestamp_ms bigint, key binary, value binary, headers string, at timestamp"
    ),
    "checkpoints": (
        "flow string, group string, topic string, partition int, remote_topic string, "
        "upstream bigint, downstream bigint, exact boolean, reread bigint, metadata string, "
        "at timestamp"
    ),
    "leases": (
        "flow string, epoch bigint, owner string, host string, since timestamp, "
        "renewed timestamp, released boolean, machine string, executors string, silence double"
    ),
    "executions": (
        "flow string, topic string, started_at timestamp, ended_at timestamp, ending string, "
        "exit_code int, cause string, job string, mode string, host string, epoch bigint, "
        "records bigint, bytes bigint, set_aside int, source_end bigint, source_stable bigint, "
        "reached bigint, behind bigint, newest_record timestamp"
    ),
    "changes": (
        "flow string, number bigint, id string, what string, items string, scope string, "
        "by string, host string, at timestamp, reason string, applied_at timestamp, "
        "generation bigint, effect string"
    ),
    "figures": (
        "flow string, at timestamp, seconds double, topic string, state string, records bigint, "
        "bytes bigint, lag_records bigint, lag_seconds double, latency_p50 double, "
        "latency_p99 double, latency_max double, transfer_p99 double, in_flight bigint, "
        "restarts bigint, given_up bigint, paused bigint, unpaused_lag_seconds double"
    ),
}
"""The columns of each table, as in SQL."""

WHOLE: Final = frozenset({"executions", "figures", "leases"})
"""Tables that are not partitioned by ``flow``: a commit for many flows writes one file."""

LATER: Final = frozenset(
    {
        "cluster",
        "executors",
        "last_batch",
        "machine",
        "partitions",
        "paused",
        "reaction",
        "remote_id",
        "silence",
        "source_epoch",
        "target_epoch",
        "topic_id",
        "transform",
        "unpaused_lag_seconds",
    }
)
"""Columns that tables of earlier versions do not have."""

_WHOLE: Final = frozenset(
    {"bigint", "int", "smallint", "tinyint", "long", "integer", "short", "byte"}
)

PROPERTIES = {
    # Delta removes the log of whole days, so a day of it is up to two days of commits.
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "10",  # commits; delta-rs would read up to a hundred of them
}
"""How long Delta keeps what a table no longer needs. An operator's own value stays."""

_EACH_RUN: Final = {"offset_runs", "checkpoints", "leases", "executions"}
"""Tables that each run of a job commits to, however little it did."""

_SHORT: Final = {
    "delta.logRetentionDuration": "interval 1 hour",
    "delta.deletedFileRetentionDuration": "interval 1 hour",
    "delta.checkpointInterval": "100",  # merging, which comes sooner, writes a checkpoint
}


def short_properties(table: str) -> Mapping[str, str]:
    """Returns the properties of *table* where delta-rs writes it.

    Of a table that changes with each run, a day of removed files would fill Delta's checkpoints.
    """
    return _SHORT if table in _EACH_RUN else PROPERTIES


def outdated_properties(wanted: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Returns what of *wanted* a table with properties *known* lacks, or has as earlier versions.

    A value of an operator's own stays.
    """
    return {
        key: value
        for key, value in wanted.items()
        if known.get(key) in {None, PROPERTIES[key]} - {value}
    }


SESSION_SETTINGS = {
    **{f"spark.databricks.delta.properties.defaults.{k[6:]}": v for k, v in PROPERTIES.items()},
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # else VACUUM commits twice
    # VACUUM lists the folder in as many tasks, by default 10 000
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""Of sessions that create and maintain tables."""


# What goes wrong with a table, as one `StateError`: what was tried, why it failed, what helps.
#
# The libraries behind the tables raise more than they say: delta-rs an `Exception` without a class
# where it queries, and what its Rust panics with; both put the cause last.

ValueT = TypeVar("ValueT")

MOST_CHARACTERS: Final = 500
"""Of a cause. The libraries add the tree of a query, or the whole log."""

FORGOTTEN: Final = {
    "offset_runs": "the next start finds the positions in the target's log; groups are "
    "translated by what is copied from then on",
    "events": "the events until then are only there",
    "topics": "the topics are recorded anew; one that was deleted and created again in between "
    "may not be noticed",
    "topic_configs": "settings are compared anew; one that the source has no longer stays on the "
    "remote topic",
    "topic_acls": "ACLs are compared anew; one that the source has no longer stays on the target",
    "dead_letters": "letters that it held are lost, and may be written again",
    "topic_deletions": "the time for which a topic must be missing on the source begins anew",
    "schema_ids": "schemas are registered again, which changes nothing at a registry; a copy that "
    "was interrupted before may not be recognised",
    "checkpoints": "the checkpoints until then are only there; groups are translated as before",
    "clusters": "the ids of the clusters are noted anew at the next start",
    "first_topics": "with auto.offset.reset=latest, what has no position yet is copied "
    "from its first record on",
    "executions": "how runs ended until then is only there",
    "figures": "the figures until then are only there",
    "changes": "the rows are written anew by the changes themselves, which are in _control",
    "leases": "nobody knows who held a lease before, so the next owner waits for half a minute",
}
"""What follows from moving a table's folder away."""

STEPS: Final = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "raise the quota of the job's user there, or free some space",
    errno.EROFS: "mount the file system so that it can be written",
    errno.EACCES: "give the job's user the right to read and write all of the folder",
    errno.EPERM: "give the job's user the right to read and write all of the folder",
}
ELSEWHERE: Final = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBUSY)
"""Further errors of the operating system that say nothing about what lies in the folder."""

_FEATURES: Final = "Unsupported table features"
_OF_FEATURES: Final = (
    "delta-rs does not write a table with them: drop the feature (ALTER TABLE ... DROP FEATURE) or "
    "write state.engine: spark"
)
_OWN_STEP: Final = "check that state.dir exists, is writable and has space"
_OF_S3: Final = "; where only Spark or Hadoop has the credentials, write state.engine: spark"
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_FRAME: Final = re.compile(r"\d+: |stack backtrace:")
LOST_IN_SPARK: Final = re.compile(
    r"FILE_NOT_(EXIST|FOUND)|NOT_CONTIGUOUS|DELTA_(TRUNCATED|MISSING|STATE_RECOVER)"
    r"|(Checksum|JsonEOF|JsonParse|BadRecord)Exception|not a Parquet file|FOOTER|MALFORMED|CORRUPT"
)
"""What Spark and Delta say of a table whose files are gone or torn."""

_LOST: Final = re.compile(
    r"Object at location \S+ not found|Json error|No table metadata or protocol found"
    r"|Expected contiguous commit files|Invalid Checkpoint|Corrupt footer"
    r"|not satisfiable|Wanted range starting"
)
"""What delta-rs says of such a table on a storage that answers."""


class DamagedTableError(StateError):
    """What lies in a table's folder is no longer the table that was written there."""


class LostTableError(DamagedTableError):
    """The table that this process has met is gone, or another one is in its place.

    Attributes:
        what: What was found instead, without a next step.
    """

    def __init__(self, table: str, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}: put it back as it was, for it is not made anew. To go on without it, stop "
            f"the mirror and start it again: {FORGOTTEN[table]}"
        )


class Met(NamedTuple):
    """A table as it was met once: the id that it was given when it was created, and a version."""

    id: str
    version: int


class KnownTables:
    """The tables of a state directory that a process has met, by their names. Threads share it."""

    def __init__(self) -> None:
        self._newest: dict[str, Met] = {}

    def newest(self, table: str) -> Met | None:
        """Returns *table* as it was met last; None if it never was. To be asked before a look."""
        return self._newest.get(table)

    def check(self, table: str, path: str, before: Met | None, found: Met | None) -> None:
        """Makes sure that what was *found* at *path* is the table that was met *before*.

        Args:
            table: The table.
            path: Its folder or URI.
            before: What `newest` returned before the look.
            found: What the look has found; None if there is no table.

        Raises:
            LostTableError: It is gone, is another one, or has lost commits.
        """
        if before is not None:
            what = f"table {table} at {path}"
            if found is None:
                raise LostTableError(table, f"{what} has disappeared while this process ran")
            if found.id != before.id:
                ids = f"its id is {found.id} instead of {before.id}"
                raise LostTableError(table, f"{what} is another one than before: {ids}")
            if found.version < before.version:
                versions = f"it ends with version {found.version}, before with {before.version}"
                raise LostTableError(table, f"{what} is an older copy of itself: {versions}")
        if found is not None:  # of two threads, the one with the older look may be the later one
            newest = self._newest.get(table)
            if newest is None or newest.id != found.id or newest.version < found.version:
                self._newest[table] = found

    def forget(self, table: str) -> None:
        """Lets the next table of this name be a new one."""
        self._newest.pop(table, None)


@contextmanager
def table_errors(verb: str, table: str, path: str) -> Iterator[None]:
    """Turns errors of delta-rs and the operating system into a `StateError`.

    Args:
        verb: What is tried in the block, for example ``append to``.
        table: The table.
        path: Its folder.

    Raises:
        DamagedTableError: The folder holds something else than the table.
        StateError: The table cannot be reached or written.
    """
    try:
        yield
    except BaseException as error:
        if not _is_of_library(error):
            raise
        reason = cause_of(error)
        if isinstance(error, CommitFailedError):
            if not (odd := _folder_in_log(path)):
                text = f"cannot {verb} table {table} at {path}: {reason}"
                step = _OF_FEATURES if _FEATURES in reason else "let no other program write to it"
                raise StateError(f"{text}; {step}") from error
            reason = f"{reason} ({odd} is a folder)"
        is_damaged = _is_lost(str(error)) if "://" in path else Path(path).parent.is_dir()
        raise state_error(verb, table, path, reason, is_damaged=is_damaged) from error


def asked_again(ask: Callable[[], ValueT]) -> ValueT:
    """Returns what *ask* reads; asks once more before a table counts as damaged.

    A merge beside a read removes files that the read has found a moment before.
    """
    try:
        return ask()
    except DamagedTableError:
        return ask()


@contextmanager
def odd_rows(table: str, path: str) -> Iterator[None]:
    """Turns what unexpected rows of *table* do to the block into a `DamagedTableError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has rows that the mirror does not write ({type(error).__name__}: {error})"
        raise _damaged(f"cannot read table {table} at {path}: {reason}", table) from error


def check_columns(table: str, path: str, columns: Mapping[str, str]) -> None:
    """Raises `DamagedTableError` unless a table with *columns* can be read as *table*.

    Further columns do no harm. Their types are in the words of Spark or of delta-rs.
    """
    for column in SCHEMAS[table].split(", "):
        name, kind = column.split()
        found, odd = columns.get(name), ""
        if found is None and name not in LATER:
            odd = f"it has no column {name}"
        elif found not in (None, kind) and not {found, kind} <= _WHOLE:
            odd = f"its column {name} is {found} instead of {kind}"
        if odd:
            raise _damaged(f"cannot read table {table} at {path}: {odd}", table)


def state_error(verb: str, table: str, path: str, reason: str, *, is_damaged: bool) -> StateError:
    """Returns the error of *table*, which cannot be used for a *reason*.

    Args:
        verb: What was tried.
        table: The table.
        path: Its folder or URI.
        reason: In the words of the library.
        is_damaged: Whether the folder is to blame, unless the operating system is.
    """
    text = f"cannot {verb} table {table} at {path}: {reason}"
    for code in (*STEPS, *ELSEWHERE):  # errors that are not about what lies in the folder
        if f"(os error {code})" in reason or os.strerror(code) in reason:
            return StateError(f"{text}; {STEPS.get(code, _OWN_STEP)}")
    if not is_damaged:
        more = _OF_S3 if path.startswith("s3") else ""
        return StateError(f"{text}; {_OWN_STEP}{more}")
    return _damaged(text, table)


def cause_of(error: BaseException) -> str:
    """Returns *error*'s text in one line, without colours and frames; its name without a text."""
    lines = (_COLOUR.sub("", line).strip(" \t↳") for line in str(error).splitlines())
    told = takewhile(lambda line: not _FRAME.match(line), filter(None, lines))
    text = printable(": ".join(told)) or type(error).__name__
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def _damaged(text: str, table: str) -> DamagedTableError:
    step = "stop the mirror, move this folder away, and start it again"
    return DamagedTableError(f"{text}; {step}: {FORGOTTEN[table]}")


def _is_lost(text: str) -> bool:
    """Returns whether the *text* of an error is about what lies in a table, not about its storage.

    A request for an object of a bucket that is not there has the same answer as for one that is.
    """
    return _LOST.search(text) is not None and "NoSuchBucket" not in text


def _folder_in_log(path: str) -> Path | None:
    """Returns a folder in the place of one of the table's commits, None if there is none."""
    with suppress(OSError):
        return next(
            (file for file in Path(path, "_delta_log").glob("*.json") if file.is_dir()), None
        )
    return None


def _is_of_library(error: BaseException) -> bool:
    kind = type(error)
    is_panic = kind.__module__ == "pyo3_runtime"  # the class cannot be imported
    return isinstance(error, DeltaError | OSError) or kind is Exception or is_panic
