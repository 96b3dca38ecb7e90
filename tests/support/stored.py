"""What the tables of a test hold, read without Spark: a query costs milliseconds, not a second."""

from pathlib import Path

from pyspark.sql import Row

from replication.config.state_access import StateAccess
from replication.model import Flow, TopicPartition
from replication.offsets.runs import OffsetRun
from replication.state.delta import DeltaReader
from replication.state.storage import storage_for
from replication.state.tables import Tables

State = Tables | Path
"""The tables, or the folder of the state directory."""


def stored(state: State, table: str, condition: str = "TRUE", order: str = "at") -> list[Row]:
    """The rows of *table* that meet an SQL *condition*; none if the table does not exist."""
    sql = f"SELECT * FROM {{table}} WHERE {condition} ORDER BY {order}"  # noqa: S608 - of the tests
    return [Row(**row) for row in reader(state).query(table, sql)]


def record_events(state: State) -> list[Row]:
    """The events that are not of groups: on shared brokers, groups of other tests come and go."""
    return stored(state, "events", '"group" IS NULL')


def stored_runs(state: State, flow: Flow, tp: TopicPartition) -> list[OffsetRun]:
    """The offset map of one partition."""
    return reader(state).offsets(flow).runs(tp)


def spark_tables(tables: Tables) -> Tables:
    """The same tables, read and written by Spark."""
    storage = storage_for(StateAccess(tables.root, engine="spark"))
    return Tables(tables.spark, tables.root, storage=storage)


def reader(state: State) -> DeltaReader:
    """The reader of *state*."""
    if isinstance(state, Path):
        return DeltaReader(state.as_uri())
    return DeltaReader(state.root, state.storage)
