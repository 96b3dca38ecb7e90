"""The table ``figures``: what was measured of each flow and topic, a row a minute."""

from collections.abc import Iterable
from typing import Any, Final

from replication.figures.lag import utc
from replication.figures.minutes import CountedMinutes, Minute
from replication.model import Flow
from replication.state.stored_table import literal
from replication.state.table_reader import StateReader

FIGURES: Final = "figures"
COUNTS: Final = ("records", "bytes", "lag_records", "in_flight", "restarts", "given_up", "paused")
"""Columns with whole numbers."""
DURATIONS: Final = (
    "lag_seconds",
    "unpaused_lag_seconds",
    "latency_p50",
    "latency_p99",
    "latency_max",
    "transfer_p99",
)
"""Columns with seconds."""


def rows_of(minutes: Iterable[Minute]) -> list[dict[str, Any]]:
    """Returns the rows of *minutes*; what is unknown is null."""
    rows = []
    for minute in minutes:
        counts = {name: minute.values.get(name) for name in COUNTS}
        row = {
            "flow": str(minute.flow),
            "at": utc(minute.at),
            "seconds": minute.seconds,
            "topic": minute.topic,
            "state": minute.state,
            **{name: None if value is None else round(value) for name, value in counts.items()},
            **{name: minute.values.get(name) for name in DURATIONS},
        }
        rows.append(row)
    return rows


def stored_figures(
    state: StateReader, flow: Flow, topic: str | None, since: float
) -> list[tuple[float, dict[str, float | None]]]:
    """Returns the figures of a flow or topic since a time, by minute, the oldest first.

    Rates are those of the minute.

    Raises:
        StateError: The table cannot be read.
    """
    where = "topic IS NULL" if topic is None else f"topic = {literal(topic)}"
    rows = [(row["at"].timestamp(), row) for row in state.rows(FIGURES, flow, where)]
    found = [(at, row) for at, row in rows if at >= since]
    return [(at, _figures(row)) for at, row in sorted(found, key=lambda one: one[0])]


def count_minutes(
    state: StateReader, flow: Flow, since: float, lag_seconds: float
) -> CountedMinutes:
    """Returns how many minutes of *flow* the table has since a time, and how these were.

    What is paused is late because somebody wants that. Rows of versions that did not note it count
    by the lag of everything.

    Args:
        state: The reader of the tables.
        flow: Which.
        since: In epoch seconds.
        lag_seconds: More than this is a lag.

    Raises:
        StateError: The table cannot be read.
    """
    begin = literal(f"{utc(since):%F %T}")
    lag, paused = "lag_seconds", "NULL"
    if any("paused" in row for row in state.query(FIGURES, "SELECT * FROM {table} LIMIT 1")):
        lag = "CASE WHEN paused IS NULL THEN lag_seconds ELSE unpaused_lag_seconds END"
        paused = "CASE WHEN paused > 0 THEN 1 END"
    rows = state.query(
        FIGURES,
        f"SELECT count(*) AS known, count({paused}) AS paused, "  # noqa: S608 - literals only
        f"count(CASE WHEN {lag} > {lag_seconds:f} THEN 1 END) AS late FROM {{table}} "
        f"WHERE flow = {literal(flow)} AND topic IS NULL AND at >= CAST({begin} AS TIMESTAMP)",
    )
    return CountedMinutes(**rows[0]) if rows else CountedMinutes(0, 0, 0)


def _figures(row: dict[str, Any]) -> dict[str, float | None]:
    seconds = row["seconds"] or 0.0

    def rate(name: str) -> float | None:
        return row[name] / seconds if seconds and row[name] is not None else None

    return {
        **{name: row.get(name) for name in (*COUNTS, *DURATIONS)},
        "in_flight_records": row["in_flight"],
        "records_per_second": rate("records"),
        "bytes_per_second": rate("bytes"),
    }
