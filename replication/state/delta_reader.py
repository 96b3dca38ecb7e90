"""Reads the Delta tables without Spark: commands answer in milliseconds instead of seconds.

`can_reach` says where it is used, and `replication.state.readers` what else is: delta-rs needs
credentials of its own for remote storage.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable, Field, QueryBuilder

from replication.model import Flow, TopicPartition
from replication.offsets.live_map import TopicMap
from replication.offsets.runs import OffsetRun
from replication.state.delta_writer import has_table
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
from replication.state.paths import local_path
from replication.state.table_errors import check_columns, odd_rows, table_errors

OUT_OF_REACH: Final = frozenset("%[]^|\\")
"""Characters of a folder's name that delta-rs decodes twice, or cannot take at all."""


def _newest_first(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}" DESC' for column in columns)


NEWEST_FIRST = _newest_first(OLDEST_FIRST)
MAPS = """
    WITH ranked AS (
      SELECT runs.*, least, src_until < least AS is_before,
        row_number() OVER (PARTITION BY topic, "partition" ORDER BY {newest_first}) AS age,
        row_number() OVER (
          PARTITION BY topic, "partition", src_until < least ORDER BY src_until DESC, {newest_first}
        ) AS distance,
        lead(src_until) OVER (
          PARTITION BY topic, "partition", topic_id ORDER BY tgt_from, "count", {oldest_first}
        ) AS next_until
      FROM runs JOIN (VALUES {wanted}) AS wanted (wanted_topic, wanted_partition, least)
        ON topic = wanted_topic AND "partition" = wanted_partition
      WHERE flow = {flow}
    )
    SELECT * FROM ranked
    WHERE NOT is_before OR next_until >= least OR age = 1 OR distance = 1 ORDER BY {oldest_first}
"""
PROGRESS = """
    WITH ranked AS (
      SELECT *, row_number() OVER (
          PARTITION BY topic, "partition", topic_id ORDER BY {newest_first}
        ) AS age,
        max(src_until) OVER topics AS replicated_until,
        count(*) OVER topics AS rows,
        sum(CASE WHEN first_batch = {compacted} THEN 1 ELSE 0 END) OVER topics AS compacted
      FROM runs WHERE flow = {flow}
      WINDOW topics AS (PARTITION BY topic, "partition", topic_id)
    )
    SELECT * FROM ranked WHERE age = 1
"""
NEWEST = """
    WITH ranked AS (
      SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {newest_first}) AS age
      FROM runs WHERE flow IN ({flows})
    )
    SELECT * EXCEPT (age) FROM ranked WHERE age = 1
"""


def can_reach(state_dir: str) -> bool:
    """Returns whether the tables of *state_dir* can be read and appended to without Spark."""
    folder = local_path(state_dir)
    return folder is not None and OUT_OF_REACH.isdisjoint(str(folder))


class DeltaReader:
    """The tables of a local state directory."""

    def __init__(self, state_dir: str) -> None:
        self._folder = local_path(state_dir)

    def path(self, table: str) -> str:
        """Returns the folder of *table*."""
        return f"{self._folder}/{table}"

    def rows(self, table: str, flow: Flow) -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table*; none if the table does not exist.

        Raises:
            StateError: The table cannot be read.
        """
        sql = f"SELECT * FROM runs WHERE flow = {_literal(flow)}"  # noqa: S608 - quoted
        return self.query(table, sql)

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of some columns, for each value of *keys*.

        Of several flows, each has the rows of its own.

        Raises:
            StateError: The table cannot be read.
        """
        flows = ", ".join(map(_literal, flow if isinstance(flow, list) else [flow]))
        sql = NEWEST.format(keys=_names(keys), newest_first=_newest_first(order), flows=flows)
        return self.query(table, sql)

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""
        return _DeltaOffsets(self, flow)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Queries the rows that *sql* selects from *table*, which it calls ``runs``.

        Raises:
            StateError: The table cannot be read.
        """
        path = self.path(table)
        with table_errors("read", table, path):
            if not has_table(Path(path)):
                return []
            stored = DeltaTable(path)
            check_columns(table, path, dict(map(_name_and_kind, stored.schema().fields)))
            found = QueryBuilder().register("runs", stored).execute(sql).read_all()
        names = found.column_names
        columns = [found.column(name).to_pylist() for name in names]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


class _DeltaOffsets:
    def __init__(self, reader: DeltaReader, flow: Flow) -> None:
        self._reader = reader
        self._flow = _literal(flow)
        self._path = reader.path(OFFSET_RUNS)

    def runs(self, tp: TopicPartition) -> list[OffsetRun]:
        partition = f'topic = {_literal(tp.topic)} AND "partition" = {tp.partition:d}'
        with odd_rows(OFFSET_RUNS, self._path):
            return runs_of(self._select(f"flow = {self._flow} AND {partition}"))

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        if not least:
            return {}
        wanted = ", ".join(
            f"({_literal(tp.topic)}, {tp.partition:d}, {offset:d})" for tp, offset in least.items()
        )
        sql = MAPS.format(
            newest_first=NEWEST_FIRST,
            oldest_first=_names(OLDEST_FIRST),
            wanted=wanted,
            flow=self._flow,
        )
        with odd_rows(OFFSET_RUNS, self._path):
            return maps_of(self._reader.query(OFFSET_RUNS, sql))

    def progress(self) -> StoredProgress:
        sql = PROGRESS.format(newest_first=NEWEST_FIRST, flow=self._flow, compacted=COMPACTED)
        with odd_rows(OFFSET_RUNS, self._path):
            return progress_of(self._reader.query(OFFSET_RUNS, sql))

    def _select(self, condition: str) -> list[dict[str, Any]]:
        order = _names(OLDEST_FIRST)
        sql = f"SELECT * FROM runs WHERE {condition} ORDER BY {order}"  # noqa: S608 - literals only
        return self._reader.query(OFFSET_RUNS, sql)


def _name_and_kind(field: Field) -> tuple[str, str]:
    return field.name, getattr(field.type, "type", "a structure")


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _literal(value: object) -> str:
    """Returns *value* as a string of SQL."""
    return "'" + str(value).replace("'", "''") + "'"
