"""A flow's offset map in fewer rows, whichever library reads and writes the table.

The rows are read in order, `compact_runs` says what replaces them, partition by partition. Python
holds `SLICE_ROWS` rows, or one partition's if it has more.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from replication.model import Flow
from replication.offsets.runs import OffsetRun
from replication.offsets.thinning import compact_runs
from replication.state.offset_rows import COMPACTED
from replication.state.sql import literal
from replication.state.stored_table import Query, Replacement

SLICE_ROWS: Final = 100_000
"""Rows of the table that Python holds at the same time."""

_PARTS: Final = """
    SELECT topic, `partition`, topic_id, count(*) AS `rows` FROM {{table}} WHERE flow = {flow}
    GROUP BY topic, `partition`, topic_id ORDER BY topic, `partition`, topic_id
"""
_RANGE: Final = """
    flow = {flow}
    AND (topic > {first[0]} OR topic = {first[0]} AND `partition` >= {first[1]})
    AND (topic < {last[0]} OR topic = {last[0]} AND `partition` <= {last[1]})
"""
_ROWS: Final = """
    SELECT src_from, src_until, tgt_from, `count`, generation, written_at,
      coalesce(last_batch, -1) AS last_batch, source_epoch, target_epoch
    FROM {{table}} WHERE {range}
    ORDER BY topic, `partition`, topic_id, tgt_from, `count`, generation, written_at
"""
RUN: Final = ("src_from", "src_until", "tgt_from", "count")
"""The columns of an `OffsetRun`, in its order."""

_AGE: Final = ("generation", "written_at", "last_batch")
_EPOCHS: Final = ("source_epoch", "target_epoch")


class _Part(NamedTuple):
    """The rows about one topic id of a partition: how many there are."""

    topic: str
    partition: int
    topic_id: str
    rows: int


def compacted(query: Query, flow: Flow, slice_rows: int = SLICE_ROWS) -> Iterator[Replacement]:
    """Yields what replaces the rows of *flow* in the table ``offset_runs``, range by range.

    Args:
        query: Reads the table.
        flow: The flow.
        slice_rows: Rows that are read at a time.
    """
    parts = [_Part(**row) for row in query(_PARTS.format(flow=literal(flow)))]
    for some in _slices(parts, slice_rows):
        first, last = ((literal(part.topic), part.partition) for part in (some[0], some[-1]))
        condition = _RANGE.format(flow=literal(flow), first=first, last=last)
        rows = iter(query(_ROWS.format(range=condition)))
        kept = [row for part in some for row in _kept(part, list(islice(rows, part.rows)))]
        yield Replacement(condition, [{"flow": str(flow), **row} for row in kept])


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


def _kept(part: _Part, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields what replaces the *rows* of *part*: each has the age of the newest of them."""
    replaced = compact_runs([OffsetRun(*(row[name] for name in RUN)) for row in rows])
    ends = [*(place for _, place in replaced[1:]), len(rows)]
    for (runs, place), end in zip(replaced, ends, strict=True):
        newest = max(rows[place:end], key=itemgetter(*_AGE))
        for run in runs:
            yield {
                "topic": part.topic,
                "partition": part.partition,
                "topic_id": part.topic_id,
                "src_from": run.src_from,
                "src_until": run.src_until,
                "tgt_from": run.tgt_from,
                "count": run.count,
                "first_batch": COMPACTED,
                **{name: newest[name] for name in (*_AGE, *_EPOCHS)},
            }
