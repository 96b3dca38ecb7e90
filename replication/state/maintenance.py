"""Keeps the tables small: old rows, old files and old properties, once a day for each flow.

The owner of a flow's lease deletes the flow's own rows. Merging files and removing unused ones
concerns whole tables; several flows may do it. Readers without Spark are safe: VACUUM leaves every
file that the table has held during the last day.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from replication.config.group_settings import StateConfig
from replication.errors import StateError
from replication.log import Log
from replication.model import Flow
from replication.state.claim import LEASE_PARTS, LeaseName
from replication.state.schemas import SCHEMAS
from replication.state.stored_table import Before
from replication.state.table_reader import OFFSET_RUNS
from replication.state.tables import Tables, reader_of

log = Log(__name__)


INTERVAL: Final = timedelta(days=1)
_DONE_AT: Final = "replication.maintained."

TIME: Final = {
    "events": "at",
    "checkpoints": "at",
    "leases": "renewed",
    "executions": "ended_at",
    "figures": "at",
}
"""The tables whose rows are deleted with age, and the column that tells their age."""


class Maintenance:
    """The maintenance that *flow* owes the tables.

    Args:
        tables: Of the state directory.
        flow: Whose rows are deleted with age.
        config: How long each table's rows are kept.
    """

    def __init__(self, tables: Tables, flow: Flow, config: StateConfig) -> None:
        self._tables = tables
        self._flow = flow
        self.log = log.bind(flow)
        self._config = config
        # in a property, so that short jobs find it, and nothing has to be kept beside the tables
        self._done_at = f"{_DONE_AT}{flow.slug}"

    def is_due(self, now: datetime) -> bool:
        """Returns whether this flow's last maintenance, by any process, is a day old at *now*.

        It is not due in the first day of the tables, either.

        Raises:
            StateError: The table cannot be read.
        """
        tables = self._tables
        if not tables.exists(OFFSET_RUNS):
            return False
        done_at = tables.properties(OFFSET_RUNS).get(self._done_at)
        last = datetime.fromisoformat(done_at) if done_at else tables.created_at(OFFSET_RUNS)
        return now - last >= INTERVAL

    def run(self, now: datetime, is_over: Callable[[], bool] = lambda: False) -> None:
        """Does everything, unless *is_over* before a step; then it is still due.

        Raises:
            LeaseError: Another process owns the flow now.
            StateError: A table cannot be read or written; what was not done is still due.
        """
        failure: StateError | None = None
        for table in SCHEMAS:
            try:
                self._maintain(table, now, is_over)
            except StateError as error:  # noqa: PERF203 - the others are maintained
                failure = failure or error
        if failure:
            raise failure
        if not is_over() and self._tables.exists(OFFSET_RUNS):
            self._tables.set_properties(OFFSET_RUNS, {self._done_at: now.isoformat()})
            self.log.info("tables_maintained")

    def _maintain(self, table: str, now: datetime, is_over: Callable[[], bool]) -> None:
        if not self._tables.exists(table):
            return
        for step in (self._set_properties, self._delete_old_rows, self._merge_files):
            if is_over():
                return
            step(table, now)

    def _set_properties(self, table: str, _now: datetime) -> None:
        """Gives a table of an earlier version what new ones are created with."""
        self._tables.update_properties(table)

    def _delete_old_rows(self, table: str, now: datetime) -> None:
        if table not in TIME:
            return
        age = timedelta(days=self._config.retention_days[table])
        before = Before(TIME[table], now - age)
        rows = self._lease_rows() if table == "leases" else [f"flow = '{self._flow}'"]
        if rows:
            self._tables.delete(table, f"({' OR '.join(rows)})", before)

    def _lease_rows(self) -> Iterable[str]:
        """Returns the rows of all leases of the flow, without the newest owner's.

        A new owner reads there whether the last one released the lease, however old the row is.
        """
        reader = reader_of(self._tables)
        names = [str(LeaseName(self._flow, part)) for part in LEASE_PARTS]
        newest = reader.newest("leases", names, ["flow"], ["epoch", "renewed"])
        return [f"(flow = '{row['flow']}' AND epoch < {row['epoch']})" for row in newest]

    def _merge_files(self, table: str, now: datetime) -> None:
        """Merges and removes files, unless that was done for another flow today."""
        if self._have_others_merged(now):
            return
        self._tables.optimize(table)
        self._tables.vacuum(table)

    def _have_others_merged(self, now: datetime) -> bool:
        if not self._tables.exists(OFFSET_RUNS):
            return False
        properties = self._tables.properties(OFFSET_RUNS).items()
        return any(
            now - datetime.fromisoformat(done_at) < INTERVAL / 2
            for name, done_at in properties
            if name.startswith(_DONE_AT) and name != self._done_at
        )
