"""What is asked of the tables, in SQL, whichever library answers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from replication.model import Flow, Position, TopicPartition
from replication.offsets.map import OffsetMap, TopicMap
from replication.offsets.runs import (
    UNKNOWN,
    UNSTAMPED,
    Epochs,
    OffsetRun,
    Stamps,
    is_placed,
    merge_runs,
)
from replication.state.schemas import odd_rows
from replication.state.stored_table import literal, names, newest_first

OFFSET_RUNS = "offset_runs"
COMPACTED: Final = -2
"""``first_batch`` of the rows that a compaction has written."""

OLDEST_FIRST = ("generation", "tgt_from", "written_at")
"""The order of a flow's rows in which the newest is the last."""

TableRow = Mapping[str, Any]
"""A row of a table: values by column name, times as aware datetimes."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last known pair of equal positions of a source partition, and the topic's id."""

    position: Position
    topic_id: str


@dataclass(frozen=True, slots=True)
class StoredProgress:
    """What the next start of a flow must know of all earlier ones.

    ``replicated_until`` is the greatest source offset ever replicated, for the newest topic id.
    The flow has ``rows`` rows; the last compaction left ``compacted_rows`` of them. ``placed`` are
    the partitions whose last row is as `is_placed` says. ``stamps`` are the leaders' epochs of the
    anchors, unknown where an earlier version has written the row.
    """

    last_generation: int
    anchors: dict[TopicPartition, Anchor]
    replicated_until: dict[TopicPartition, int]
    rows: int = field(default=0, compare=False)
    compacted_rows: int = field(default=0, compare=False)
    placed: frozenset[TopicPartition] = frozenset()
    stamps: dict[TopicPartition, Stamps] = field(default_factory=dict)


def progress_of(newest: Iterable[TableRow]) -> StoredProgress:
    """Returns the progress that the *newest* row of each partition and topic id records.

    Such a row has three more columns: ``replicated_until``, the greatest ``src_until`` of the id,
    and how many ``rows`` and ``compacted`` rows there are of it.
    """
    last_generation, rows, compacted_rows = 0, 0, 0
    anchors: dict[TopicPartition, Anchor] = {}
    until: dict[TopicPartition, int] = {}
    placed: set[TopicPartition] = set()
    stamps: dict[TopicPartition, Stamps] = {}
    for row in sorted(newest, key=itemgetter(*OLDEST_FIRST)):  # the newest topic id stays
        tp = TopicPartition(row["topic"], row["partition"])
        run = _run(row)
        anchors[tp] = Anchor(run.end, row["topic_id"])
        (placed.add if is_placed(run) else placed.discard)(tp)
        epochs = Epochs(row.get("source_epoch"), row.get("target_epoch"))
        stamps[tp] = UNSTAMPED.renewed(run.end, epochs)
        if epochs == UNKNOWN:  # whatever an earlier topic of that name has
            del stamps[tp]
        until[tp] = row["replicated_until"]
        last_generation = max(last_generation, row["generation"])
        rows += row["rows"]
        compacted_rows += row["compacted"]
    return StoredProgress(
        last_generation, anchors, until, rows, compacted_rows, frozenset(placed), stamps
    )


def runs_of(rows: Sequence[TableRow]) -> list[OffsetRun]:
    """Returns the merged runs of one partition's *rows*, oldest first, for the newest topic id."""
    newest = rows[-1]["topic_id"] if rows else None
    return merge_runs(_run(row) for row in rows if row["topic_id"] == newest)


def maps_of(rows: Iterable[TableRow]) -> dict[TopicPartition, TopicMap]:
    """Returns the map of each partition in *rows*, oldest first, for its newest topic id."""
    partitions: dict[TopicPartition, list[TableRow]] = {}
    for row in rows:
        partitions.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    return {tp: _map(of_partition) for tp, of_partition in partitions.items()}


def _run(row: TableRow) -> OffsetRun:
    return OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])


def _map(rows: Sequence[TableRow]) -> TopicMap:
    topic_id = rows[-1]["topic_id"]
    return TopicMap(topic_id, OffsetMap(_run(row) for row in rows if row["topic_id"] == topic_id))


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


class OffsetReader:
    """Reads the offset map of one flow from ``offset_runs``."""

    def __init__(self, reader: "StateReader", flow: Flow) -> None:
        self._reader = reader
        self._flow = literal(flow)
        self._path = reader.path(OFFSET_RUNS)

    def runs(self, tp: TopicPartition) -> list[OffsetRun]:
        """Returns a partition's map, merged, for the newest topic id; [] if there is none."""
        sql = (
            f"SELECT * FROM {{table}} WHERE flow = {self._flow} "  # noqa: S608 - literals only
            f"AND topic = {literal(tp.topic)} AND `partition` = {tp.partition:d} "
            f"ORDER BY {names(OLDEST_FIRST)}"
        )
        with odd_rows(OFFSET_RUNS, self._path):
            return runs_of(self._reader.query(OFFSET_RUNS, sql))

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        """Returns the newest topic ids' maps, as far as they concern offsets *least* and later.

        Partitions without runs are absent. Of the runs that end before *least* only the last one
        is read, which shows that there were some, and those at which a range without runs begins
        that concerns *least*: years of a sparse partition are many rows.
        """
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
        """Returns how far the flow is replicated."""
        newest = newest_first(OLDEST_FIRST)
        sql = PROGRESS.format(newest_first=newest, flow=self._flow, compacted=COMPACTED)
        with odd_rows(OFFSET_RUNS, self._path):
            return progress_of(self._reader.query(OFFSET_RUNS, sql))


class StateReader(ABC):
    """What commands read of a state directory, and jobs where they start or look back.

    A table that cannot be read is a `StateError`; one that does not exist has no rows.
    """

    @abstractmethod
    def path(self, table: str) -> str:
        """Returns the folder or URI of *table*."""

    @abstractmethod
    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        """Returns the rows that *sql* selects from *table*, which it calls ``{table}``."""

    def rows(self, table: str, flow: Flow, where: str = "true") -> list[dict[str, Any]]:
        """Returns the rows of *flow* in *table*; none if the table does not exist.

        *where* is a further condition of SQL.
        """
        condition = f"flow = {literal(flow)} AND ({where})"
        return self.query(table, f"SELECT * FROM {{table}} WHERE {condition}")  # noqa: S608 - quoted

    def newest(
        self, table: str, flow: Flow | str | list[str], keys: Sequence[str], order: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the last row of *flow* in the *order* of some columns, for each value of *keys*.

        Of several flows, each has the rows of its own.
        """
        flows = ", ".join(map(literal, flow if isinstance(flow, list) else [flow]))
        sql = NEWEST.format(keys=names(keys), newest_first=newest_first(order), flows=flows)
        return self.query(table, sql)

    def offsets(self, flow: Flow) -> OffsetReader:
        """Returns the offset map of *flow*."""
        return OffsetReader(self, flow)
