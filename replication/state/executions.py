"""The table ``executions``: how each start of a flow ended, and what it has replicated.

A row without a topic is of the flow; one for each of its topics follows. Records carry no more than
what the flow knew when it ended: nobody asks a cluster for them.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from replication.config.state_access import StateAccess
from replication.model import Flow, Job, Mode
from replication.state.delta import delta_table
from replication.state.engine_mark import claim_engine
from replication.state.files import open_files
from replication.state.folder import StateFolder
from replication.state.locks import hold_commit_lock
from replication.state.schemas import SCHEMAS, table_errors
from replication.state.storage import storage_for
from replication.state.table_reader import StateReader
from replication.state.tables import Tables, local_tables

EXECUTIONS: Final = "executions"

Ending = Literal["finished", "stopped", "failed", "lease-lost", "kept-out", "killed"]
"""How a start of a flow ended: a drain that copied everything; a stop on request; an error; another
process has taken the lease over; another process had it all the time; no end of its own."""

LONGEST_CAUSE: Final = 1000


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """What a start of a flow has replicated of one upstream topic. Offsets are sums of partitions.

    Args:
        topic: Its upstream name.
        records: Copied, as far as the target has acknowledged them.
        bytes: Of their keys and values; None where executors do not report.
        set_aside: 1 if the topic is set aside at the end, else how many of its partitions are.
        cause: Why; None if nothing is.
        source_end: The log end at the start; None if it is not known. So are the next ones.
        source_stable: The last stable offset at the start.
        reached: The next source offset to copy.
        behind: Offsets from there to what the flow could read at the start.
        newest_record: The newest timestamp of the records copied; None without one.
    """

    topic: str
    records: int = 0
    bytes: int | None = None
    set_aside: int = 0
    cause: str | None = None
    source_end: int | None = None
    source_stable: int | None = None
    reached: int | None = None
    behind: int | None = None
    newest_record: datetime | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """One start of a flow and its end.

    Args:
        flow: The flow.
        job: Which parts of it ran.
        mode: How its query ran, or was to run.
        host: Its machine and process.
        started_at: When the process began.
        ended_at: When the flow ended; of a killed one the last sign of life.
        ending: How.
        exit_code: As in `replication.errors`; None of a killed one.
        cause: What failed.
        epoch: Of the lease of the flow's records; None if this process never held it.
        topics: None if it is not known what was replicated.
    """

    flow: Flow
    job: Job | None
    mode: Mode | None
    host: str
    started_at: datetime
    ended_at: datetime
    ending: Ending
    exit_code: int | None = None
    cause: str = ""
    epoch: int | None = None
    topics: Sequence[TopicEnd] | None = None


def rows_of(execution: Execution) -> list[dict[str, Any]]:
    """Returns the rows of *execution*: its own, then one for each topic."""
    common = {
        "flow": str(execution.flow),
        "started_at": execution.started_at,
        "ended_at": execution.ended_at,
        "ending": execution.ending,
        "exit_code": execution.exit_code,
        "job": execution.job,
        "mode": execution.mode,
        "host": execution.host,
        "epoch": execution.epoch,
    }
    cause = execution.cause[:LONGEST_CAUSE] or None
    rows = [{**common, "cause": cause, **_sums(execution.topics)}]
    for topic in execution.topics or ():
        columns = {name: getattr(topic, name) for name in TopicEnd.__slots__}
        rows.append({**common, **columns, "cause": topic.cause and topic.cause[:LONGEST_CAUSE]})
    return rows


def _sums(topics: Sequence[TopicEnd] | None) -> dict[str, Any]:
    if topics is None:
        return {}
    counted = [topic.bytes for topic in topics if topic.records or topic.bytes is not None]
    known = [topic.behind for topic in topics if topic.behind is not None]
    newest = [topic.newest_record for topic in topics if topic.newest_record is not None]
    return {
        "records": sum(topic.records for topic in topics),
        "bytes": None if None in counted else sum(size or 0 for size in counted),
        "set_aside": sum(topic.set_aside for topic in topics),
        "behind": sum(known) if known else None,
        "newest_record": max(newest, default=None),
    }


def last_execution(state: StateReader, flow: Flow) -> Mapping[str, Any] | None:
    """Returns the newest end of *flow* in *state*, but of a start that another process kept out.

    Raises:
        StateError: The table cannot be read.
    """
    rows = state.newest(EXECUTIONS, flow, ["topic", "ending"], ["ended_at", "started_at"])
    ends = [row for row in rows if row["topic"] is None and row["ending"] != "kept-out"]
    return max(ends, key=lambda row: (row["ended_at"], row["started_at"]), default=None)


def append_without_spark(access: StateAccess, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends *rows* in a process that has no Spark session.

    Storage that only Spark can write gets a small session of its own for it.

    Raises:
        StateError: They cannot be written.
    """
    storage = storage_for(access)
    if not storage.is_quick:
        with local_tables(storage) as tables:
            claim_engine(tables.files(), storage)
            tables.append(EXECUTIONS, rows)
        return
    with ExitStack() as held:
        if storage.is_local:
            StateFolder(folder := Path(storage.root)).begin()
            held.enter_context(hold_commit_lock(folder / "_locks" / f"{EXECUTIONS}.commit"))
        else:
            claim_engine(held.enter_context(open_files(storage)), storage)
        held.enter_context(table_errors("append to", EXECUTIONS, storage.uri(EXECUTIONS)))
        delta_table(storage, EXECUTIONS).append(rows, SCHEMAS[EXECUTIONS])


def has_end(state: StateReader, flow: Flow, host: str, at: datetime) -> bool:
    """Returns whether the table has the end of the process *host* that ran *flow* at time *at*."""
    return any(
        row["host"] == host and row["started_at"] <= at <= row["ended_at"]
        for row in state.rows(EXECUTIONS, flow)
        if row["topic"] is None
    )


def create_missing_tables(tables: Tables) -> None:
    """Creates the tables that do not exist yet, empty, so that every query finds its table.

    Raises:
        StateError: One cannot be created.
    """
    for table in SCHEMAS:
        tables.create(table)
