"""A flow's offset map in fewer rows, in a table of a local folder: no Spark job reads or writes it.

delta-rs reads the rows in order, `compact_runs` says what replaces them, partition by partition,
and one commit takes the new rows. Python holds `SLICE_ROWS` rows, or one partition's if it has
more; what is written waits as Arrow, some 100 bytes a row.
`replication.state.compaction` does the same in SQL for tables of other storage.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from arro3.core import Array, DataType, Field, RecordBatch, Schema, Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from replication.model import Flow
from replication.offsets.runs import OffsetRun
from replication.offsets.thinning import compact_runs
from replication.state.offset_rows import COMPACTED

SLICE_ROWS: Final = 100_000
"""Rows of the table that Python holds at the same time."""

_PARTS: Final = """
    SELECT topic, "partition", topic_id, count(*) AS rows FROM runs WHERE flow = {flow}
    GROUP BY topic, "partition", topic_id ORDER BY topic, "partition", topic_id
"""
_ROWS: Final = """
    SELECT src_from, src_until, tgt_from, "count", generation,
      arrow_cast(written_at, 'Int64') AS written_at, coalesce(last_batch, -1) AS last_batch
    FROM runs
    WHERE flow = {flow}
      AND (topic > {first[0]} OR topic = {first[0]} AND "partition" >= {first[1]})
      AND (topic < {last[0]} OR topic = {last[0]} AND "partition" <= {last[1]})
    ORDER BY topic, "partition", topic_id, tgt_from, "count", generation, written_at
"""
_TEXT, _LONG, _TIME = DataType.utf8(), DataType.int64(), DataType.timestamp("us", tz="UTC")
_COLUMNS: Final = {
    "flow": _TEXT,
    "generation": _LONG,
    "topic": _TEXT,
    "partition": DataType.int32(),
    "topic_id": _TEXT,
    "src_from": _LONG,
    "src_until": _LONG,
    "tgt_from": _LONG,
    "count": _LONG,
    "first_batch": _LONG,
    "last_batch": _LONG,
    "written_at": _TIME,
}
_SCHEMA: Final = Schema([Field(name, kind, nullable=True) for name, kind in _COLUMNS.items()])


class _Part(NamedTuple):
    """The rows about one topic id of a partition: how many there are."""

    topic: str
    partition: int
    topic_id: str
    rows: int


def compact_local(folder: Path, flow: Flow, slice_rows: int = SLICE_ROWS) -> int:
    """Replaces the rows of *flow* in the table at *folder* by fewer ones, in one commit.

    Args:
        folder: Of the table ``offset_runs``.
        flow: The flow.
        slice_rows: Rows that are read at a time.

    Returns:
        How many rows the flow has then.

    Raises:
        DeltaError: The table cannot be read or written, or another process changed it meanwhile.
        OSError: A file cannot be read or written.
    """
    table = DeltaTable(folder)
    query = QueryBuilder().register("runs", table)
    parts = list(map(_Part, *_columns(query, _PARTS.format(flow=_literal(flow)))))
    batches = [_compacted(query, flow, some) for some in _slices(parts, slice_rows)]
    if not batches:
        return 0
    written = Table.from_batches(batches, schema=_SCHEMA)
    write_deltalake(
        table,
        written,
        mode="overwrite",
        predicate=f"flow = {_literal(flow)}",
        schema_mode="merge",  # of columns that others have added, the new rows have none
    )
    return int(written.num_rows)


def _slices(parts: Sequence[_Part], slice_rows: int) -> Iterator[list[_Part]]:
    """Yields *parts* in order, as many as have *slice_rows* rows; a partition stays whole."""
    some: list[_Part] = []
    rows = 0
    for part in parts:
        is_new_partition = bool(some) and part[:2] != some[-1][:2]
        if is_new_partition and rows + part.rows > slice_rows:
            yield some
            some, rows = [], 0
        some.append(part)
        rows += part.rows
    if some:
        yield some


def _compacted(query: QueryBuilder, flow: Flow, parts: Sequence[_Part]) -> RecordBatch:
    """Returns the rows that replace those of neighbouring *parts*."""
    first, last = ((_literal(part.topic), part.partition) for part in (parts[0], parts[-1]))
    columns = _columns(query, _ROWS.format(flow=_literal(flow), first=first, last=last))
    rows = zip(*columns, strict=True)
    kept = [row for part in parts for row in _kept(part, list(islice(rows, part.rows)))]
    values: dict[str, Sequence[Any]] = dict(
        zip(_KEPT_COLUMNS, zip(*kept, strict=True), strict=True)
    )
    values |= {"flow": [str(flow)] * len(kept), "first_batch": [COMPACTED] * len(kept)}
    arrays = [
        Array(values[name], type=_LONG).cast(_TIME)
        if kind == _TIME
        else Array(values[name], type=kind)
        for name, kind in _COLUMNS.items()
    ]
    return RecordBatch.from_arrays(arrays, schema=_SCHEMA)


_KEPT_COLUMNS: Final = (
    *("topic", "partition", "topic_id", "src_from", "src_until", "tgt_from", "count"),
    *("generation", "written_at", "last_batch"),
)


def _kept(part: _Part, rows: Sequence[tuple[int, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yields what replaces the *rows* of *part*: each has the newest age of those replaced."""
    replaced = compact_runs([OffsetRun(*row[:4]) for row in rows])
    ends = [*(place for _, place in replaced[1:]), len(rows)]
    for (runs, place), end in zip(replaced, ends, strict=True):
        newest = max(row[4:] for row in rows[place:end])
        for run in runs:
            yield (
                *(part.topic, part.partition, part.topic_id),
                *(run.src_from, run.src_until, run.tgt_from, run.count),
                *newest,
            )


def _columns(query: QueryBuilder, sql: str) -> list[list[Any]]:
    found = query.execute(sql).read_all()
    return [list(found.column(name).to_pylist()) for name in found.column_names]


def _literal(value: object) -> str:
    """Returns *value* as a string of SQL."""
    return "'" + str(value).replace("'", "''") + "'"
