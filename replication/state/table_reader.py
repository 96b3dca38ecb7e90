"""What is asked of the tables, in SQL, whichever library answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from replication.model import Flow, TopicPartition
from replication.offsets.live_map import TopicMap
from replication.offsets.runs import OffsetRun
from replication.state.offset_rows import (
    COMPACTED,
    OFFSET_RUNS,
    OLDEST_FIRST,
    OffsetReader,
    StoredProgress,
    maps_of,
    progress_of,
    runs_of,
)
from replication.state.sql import literal, names, newest_first
from replication.state.table_errors import odd_rows

MAPS = """
    WITH ranked AS (
      SELECT runs.*, least, src_until < least AS is_before,
        row_number() OVER (PARTITION BY topic, `partition` ORDER BY {newest_first}) AS age,
        row_number() OVER (
          PARTITION BY topic, `partition`, src_until < least ORDER BY src_until DESC, {newest_first}
        ) AS distance,
        lead(src_until) OVER (
          PARTITION BY topic, `partition`, topic_id ORDER BY tgt_from, `count`, {oldest_first}
        ) AS next_until
      FROM {{table}} AS runs
      JOIN (VALUES {wanted}) AS wanted (wanted_topic, wanted_partition, least)
        ON topic = wanted_topic AND `partition` = wanted_partition
      WHERE flow = {flow}
    )
    SELECT * FROM ranked
    WHERE NOT is_before OR next_until >= least OR age = 1 OR distance = 1 ORDER BY {oldest_first}
"""
PROGRESS = """
    WITH ranked AS (
      SELECT *, row_number() OVER (
          PARTITION BY topic, `partition`, topic_id ORDER BY {newest_first}
        ) AS age,
        max(src_until) OVER topics AS replicated_until,
        count(*) OVER topics AS `rows`,
        sum(CASE WHEN first_batch = {compacted} THEN 1 ELSE 0 END) OVER topics AS compacted
      FROM {{table}} WHERE flow = {flow}
      WINDOW topics AS (PARTITION BY topic, `partition`, topic_id)
    )
    SELECT * FROM ranked WHERE age = 1
"""
NEWEST = """
    WITH ranked AS (
      SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {newest_first}) AS age
      FROM {{table}} WHERE flow IN ({flows})
    )
    SELECT * EXCEPT (age) FROM ranked WHERE age = 1
"""


class StateReader(ABC):
    """What commands read of a state directory, and jobs where they start or look back."""

    @abstractmethod
    def path(self, table: str) -> str:
        """Returns the folder or URI of *table*."""

    @abstractmethod
    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*, which it calls ``{table}``.

        Raises:
            StateError: The table cannot be read.
        """

    def rows(self, table: str, flow: Flow, where: str = "true") -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table*; none if the table does not exist.

        Args:
            table: The table.
            flow: The flow.
            where: A further condition of SQL.

        Raises:
            StateError: The table cannot be read.
        """
        condition = f"flow = {literal(flow)} AND ({where})"
        return self.query(table, f"SELECT * FROM {{table}} WHERE {condition}")  # noqa: S608 - quoted

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of some columns, for each value of *keys*.

        Of several flows, each has the rows of its own.

        Raises:
            StateError: The table cannot be read.
        """
        flows = ", ".join(map(literal, flow if isinstance(flow, list) else [flow]))
        sql = NEWEST.format(keys=names(keys), newest_first=newest_first(order), flows=flows)
        return self.query(table, sql)

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""
        return _Offsets(self, flow)


class _Offsets:
    def __init__(self, reader: StateReader, flow: Flow) -> None:
        self._reader = reader
        self._flow = literal(flow)
        self._path = reader.path(OFFSET_RUNS)

    def runs(self, tp: TopicPartition) -> list[OffsetRun]:
        sql = (
            f"SELECT * FROM {{table}} WHERE flow = {self._flow} "  # noqa: S608 - literals only
            f"AND topic = {literal(tp.topic)} AND `partition` = {tp.partition:d} "
            f"ORDER BY {names(OLDEST_FIRST)}"
        )
        with odd_rows(OFFSET_RUNS, self._path):
            return runs_of(self._reader.query(OFFSET_RUNS, sql))

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        if not least:
            return {}
        wanted = ", ".join(
            f"({literal(tp.topic)}, {tp.partition:d}, {offset:d})" for tp, offset in least.items()
        )
        sql = MAPS.format(
            newest_first=newest_first(OLDEST_FIRST),
            oldest_first=names(OLDEST_FIRST),
            wanted=wanted,
            flow=self._flow,
        )
        with odd_rows(OFFSET_RUNS, self._path):
            return maps_of(self._reader.query(OFFSET_RUNS, sql))

    def progress(self) -> StoredProgress:
        newest = newest_first(OLDEST_FIRST)
        sql = PROGRESS.format(newest_first=newest, flow=self._flow, compacted=COMPACTED)
        with odd_rows(OFFSET_RUNS, self._path):
            return progress_of(self._reader.query(OFFSET_RUNS, sql))
