"""The SQL of the documents gives the same rows in Spark, in delta-rs and in DuckDB."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable, QueryBuilder

from replication.state.delta import LocalTable
from replication.state.schemas import SCHEMAS
from tests.support.documents import TABLES, blocks

Engine = Callable[[str], list[tuple[Any, ...]]]

FOLDER = "/var/lib/replication"  # where the documents have state.dir
PATH = re.compile(rf"delta\.`{FOLDER}/(\w+)`")
NOW = datetime.now(timezone.utc).replace(microsecond=0)
HOUR = timedelta(hours=1)


def execution(flow: str, hours: int, ending: str, code: int, **more: object) -> dict[str, Any]:
    """A row of an execution that ended so many hours ago."""
    at = NOW - hours * HOUR
    common = {"flow": flow, "started_at": at - HOUR, "ended_at": at, "ending": ending}
    return {**common, "exit_code": code, **more}


GREEN = {"behind": 0, "set_aside": 0}
ROWS: dict[str, list[dict[str, Any]]] = {
    "executions": [
        execution("A->B", 9, "finished", 0, **GREEN, newest_record=NOW - 10 * HOUR),
        execution("A->B", 9, "finished", 0, topic="orders", **GREEN),
        execution("A->B", 9, "finished", 0, topic="users", **GREEN, newest_record=NOW - 10 * HOUR),
        execution("A->B", 2, "failed", 3, behind=7, set_aside=1, cause="two topics"),
        execution("A->B", 2, "failed", 3, topic="users", behind=7, set_aside=0),
        execution("A->B", 2, "failed", 3, topic="audit", set_aside=1, cause="no right"),
        execution("A->B", 2, "failed", 3, topic="orders", **GREEN),
        execution("A->B", 1, "kept-out", 4),
        execution("C->D", 3, "finished", 0, **GREEN, newest_record=NOW - 4 * HOUR),
        execution("C->D", 3, "finished", 0, topic="orders", **GREEN),
    ],
    "offset_runs": [
        {"flow": "A->B", "topic": "orders", "partition": 0, "src_until": 5, "written_at": NOW},
        {"flow": "A->B", "topic": "orders", "partition": 0, "src_until": 9, "written_at": NOW},
        {"flow": "C->D", "topic": "orders", "partition": 0, "src_until": 99, "written_at": NOW},
    ],
    "events": [
        {"flow": "A->B", "at": NOW - HOUR, "kind": "stalled", "topic": "orders", "text": "new"},
        {"flow": "A->B", "at": NOW - 30 * HOUR, "kind": "stalled", "text": "old"},
    ],
    "checkpoints": [
        {"flow": "A->B", "group": "g", "topic": "t", "partition": 0, "reread": 0, "at": NOW - HOUR},
        {"flow": "A->B", "group": "g", "topic": "t", "partition": 0, "reread": 5, "at": NOW},
        {"flow": "A->B", "group": "h", "topic": "t", "partition": 0, "reread": 5, "at": NOW - HOUR},
        {"flow": "A->B", "group": "h", "topic": "t", "partition": 0, "reread": 0, "at": NOW},
    ],
    "leases": [
        {"flow": "A->B", "epoch": 1, "host": "h1", "renewed": NOW - 9 * HOUR, "released": False},
        {"flow": "A->B", "epoch": 2, "host": "h2", "renewed": NOW - 2 * HOUR, "released": False},
        {"flow": "A->B", "epoch": 2, "host": "h2", "renewed": NOW - HOUR, "released": True},
    ],
}
LAST_GOOD, OLD = NOW - 9 * HOUR, NOW - 10 * HOUR
EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "executions": [
        ("A->B", "audit", "failed", 3, NOW - 2 * HOUR, None, None, None, 1, "no right"),
        ("A->B", "users", "failed", 3, NOW - 2 * HOUR, LAST_GOOD, OLD, 7, 0, None),
        ("A->B", None, "failed", 3, NOW - 2 * HOUR, LAST_GOOD, OLD, 7, 1, "two topics"),
        ("C->D", None, "finished", 0, NOW - 3 * HOUR, NOW - 3 * HOUR, NOW - 4 * HOUR, 0, 0, None),
    ],
    "offset_runs": [("orders", 0, 9, NOW)],
    "events": [(NOW - HOUR, "stalled", "orders", None, None, None, "new")],
    "checkpoints": [("g", "t", 0, 5)],
    "leases": [(1, "h1", NOW - 9 * HOUR, None), (2, "h2", NOW - 2 * HOUR, NOW - HOUR)],
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    for name, schema in SCHEMAS.items():
        LocalTable(folder / name).append(ROWS.get(name, []), schema)
    return folder


def by_spark(state: Path, request: pytest.FixtureRequest) -> Engine:
    spark = request.getfixturevalue("spark").newSession()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return lambda sql: [tuple(row) for row in spark.sql(sql.replace(FOLDER, str(state))).collect()]


def registered(state: Path) -> QueryBuilder:
    query = QueryBuilder()
    for name in SCHEMAS:
        query.register(name, DeltaTable(state / name))
    return query


def by_delta_rs(state: Path, _request: pytest.FixtureRequest) -> Engine:
    query = registered(state)

    def run(sql: str) -> list[tuple[Any, ...]]:
        found = query.execute(PATH.sub(r"\1", sql)).read_all()
        columns = [found.column(name).to_pylist() for name in found.column_names]
        return list(zip(*columns, strict=True))

    return run


def by_duckdb(state: Path, _request: pytest.FixtureRequest) -> Engine:
    query, connection = registered(state), duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in SCHEMAS:
        rows = query.execute(f"SELECT * FROM {name}").read_all()  # noqa: S608 - our own names
        connection.register(name, rows)
    return lambda sql: connection.sql(PATH.sub(r"\1", sql)).fetchall()


@pytest.fixture(
    params=[
        pytest.param(by_spark, id="Spark", marks=pytest.mark.spark),
        pytest.param(by_delta_rs, id="delta-rs"),
        pytest.param(by_duckdb, id="DuckDB"),
    ]
)
def engine(request: pytest.FixtureRequest, state: Path) -> Engine:
    return request.param(state, request)  # type: ignore[no-any-return]


def statements() -> dict[str, str]:
    """The statements of the documents, by the table that they read."""
    found = [
        statement
        for block in blocks(TABLES, "sql")
        for statement in block.split(";")
        if statement.strip()
    ]
    by_table = {PATH.findall(statement)[0]: statement for statement in found}
    del by_table["figures"]  # it asks for the last day, and finds what the present has
    return by_table


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """*row* with each time as UTC without a zone, and with what sorts for NULL."""
    return tuple(
        value.astimezone(timezone.utc).replace(tzinfo=None)
        if isinstance(value, datetime)
        else value
        for value in row
    )


def test_every_statement_of_the_documents_has_rows_to_find() -> None:
    assert statements().keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_statement_of_the_documents_finds_the_rows(engine: Engine, name: str) -> None:
    found = engine(statements()[name])

    wanted = [comparable(row) for row in EXPECTED[name]]
    assert sorted((comparable(row) for row in found), key=str) == sorted(wanted, key=str)


def test_tables_without_a_row_are_found(engine: Engine) -> None:
    for name in SCHEMAS.keys() - ROWS.keys():
        assert engine(f"SELECT * FROM delta.`{FOLDER}/{name}`") == []  # noqa: S608 - our own names
