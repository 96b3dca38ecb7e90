"""The offset map of one flow, in the Delta table ``offset_runs``."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from replication.errors import StateError
from replication.log import Log
from replication.model import Flow, TopicPartition
from replication.offsets.guard import FirstStart
from replication.offsets.runs import UNKNOWN, Border, FinishedRuns, OffsetRun, compact_runs
from replication.state.stored_table import Query, Replacement, literal
from replication.state.table_reader import COMPACTED, OFFSET_RUNS, StoredProgress, TableRow
from replication.state.tables import Tables, now, reader_of

log = Log(__name__)

# A flow's offset map in fewer rows, whichever library reads and writes the table.
#
# The rows are read in order, `compact_runs` says what replaces them, partition by partition.
# Python holds `SLICE_ROWS` rows, or one partition's if it has more.

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


COMPACT_AFTER_ROWS = 20_000
"""The fewest new rows after which a map is compacted, unless it is short and no Spark is needed."""

FEWEST_ROWS = 200
"""The fewest of a short map. Each drain adds some, and each merge of files writes all of them."""

MOST_BORDERS = 1_000
"""Of one partition that wait for the runs that they divide."""

SHORT = 10
"""A map is short if `COMPACT_AFTER_ROWS` are more than this many times its rows."""


def due_after(left: int, *, is_quick: bool) -> int:
    """Returns after how many new rows a map with *left* compacted rows is compacted again. Pure.

    Args:
        left: Once there are as many new ones, it has doubled, which is always awaited.
        is_quick: Whether no Spark job does it.
    """
    fewest = min(COMPACT_AFTER_ROWS, max(FEWEST_ROWS, SHORT * left))
    return max(left, fewest if is_quick else COMPACT_AFTER_ROWS)


class OffsetTable:
    """*flow*'s rows of ``offset_runs``. One process writes them: the holder of its lease.

    Args:
        tables: Of the state directory.
        flow: Whose rows.
        compact_after: The fewest new rows for a compaction, instead of what `due_after` says.
    """

    def __init__(self, tables: Tables, flow: Flow, compact_after: int | None = None) -> None:
        self._tables = tables
        self._flow = flow
        self.log = log.bind(flow)
        self._least = compact_after
        self._wanted: dict[TopicPartition, tuple[str, list[Border]]] = {}
        self._ends: dict[TopicPartition, int] = {}  # of what this process has written
        self._appended = 0
        self._compact_after = self._due_after(0)

    def append(self, finished: FinishedRuns) -> None:
        """Appends the newest runs of the map; compacts it when `due_after` says so."""
        rows = self._rows_of(finished)
        self._tables.append(OFFSET_RUNS, rows)
        self._ends |= {tp: runs[-1].src_until for tp, runs in finished.runs.items() if runs}
        self._add(rows)

    def want(self, borders: Mapping[TopicPartition, tuple[str, list[Border]]]) -> None:
        """Notes *borders* of the map in memory, with the topic ids, for `append_borders`."""
        for tp, (topic_id, of_partition) in borders.items():
            kept = [*self._wanted.get(tp, (topic_id, []))[1], *of_partition][-MOST_BORDERS:]
            self._wanted[tp] = topic_id, kept

    def append_borders(self) -> None:
        """Divides runs of the table at the borders that are wanted, as far as it has them.

        A row is added that has the end of such a run. Spark would take seconds to find the runs.
        """
        due = {
            (tp, border): topic_id
            for tp, (topic_id, borders) in self._wanted.items()
            for border in borders
            if border.upstream < self._ends.get(tp, -1)
        }
        if due and self._tables.storage.is_quick:
            rows = self._ends_of_runs(due)
            self._tables.append(OFFSET_RUNS, rows)
            self._add(rows)
        self._wanted = {
            tp: (topic_id, left)
            for tp, (topic_id, borders) in self._wanted.items()
            if (left := [border for border in borders if (tp, border) not in due])
        }

    def _ends_of_runs(
        self, due: Mapping[tuple[TopicPartition, Border], str]
    ) -> list[dict[str, Any]]:
        """Returns a row for each border that is *due* and within a sparse run of the table.

        It is as old as that run, so that the newest row is still the one of the newest run.
        """
        where = " OR ".join(
            f"(topic = {literal(tp.topic)} AND `partition` = {tp.partition:d} "
            f"AND src_from <= {border.upstream:d} AND src_until > {border.upstream:d})"
            for tp, border in due
        )
        found: dict[TopicPartition, list[dict[str, Any]]] = {}
        for row in reader_of(self._tables).rows(OFFSET_RUNS, self._flow, where):
            found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
        rows = []
        for (tp, border), topic_id in due.items():
            of_id = [row for row in found.get(tp, ()) if row["topic_id"] == topic_id]
            starts = {(row["src_from"], row["tgt_from"]) for row in of_id}
            if (border.upstream, border.part.tgt_until) in starts:
                continue  # it is there already
            for row in of_id:
                run = OffsetRun(*(row[name] for name in RUN))
                if (end := run.end_from(border)) is not None:
                    rows.append({**row, **dict(zip(RUN, astuple(end), strict=True))})
                    break
        return rows

    def _forget_borders(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._wanted.pop(tp, None)
            self._ends.pop(tp, None)

    def _add(self, rows: Sequence[object]) -> None:
        self._appended += len(rows)
        if self._appended >= self._compact_after:
            self._compact()

    def replace(self, finished: FinishedRuns) -> None:
        self._forget_borders(finished.runs)
        partitions = (
            f"(topic = {literal(tp.topic)} AND `partition` = {tp.partition})"
            for tp in finished.runs
        )
        condition = f"flow = {literal(self._flow)} AND ({' OR '.join(partitions)})"
        replaced = Replacement(condition, self._rows_of(finished))
        self._tables.rewrite(OFFSET_RUNS, condition, lambda _: [replaced], "replace rows of")

    def delete(self, partitions: Iterable[TopicPartition], before_generation: int) -> None:
        """Deletes the rows about *partitions* that are older than a generation."""
        partitions = list(partitions)
        self._forget_borders(partitions)
        of_topic: dict[str, list[int]] = {}
        for tp in partitions:
            of_topic.setdefault(tp.topic, []).append(tp.partition)
        for topic, numbers in of_topic.items():
            condition = (
                f"flow = {literal(self._flow)} AND generation < {before_generation} "
                f"AND topic = {literal(topic)} AND `partition` IN ({', '.join(map(str, numbers))})"
            )
            self._tables.delete(OFFSET_RUNS, condition)

    def resume(self, stored: StoredProgress) -> None:
        """Counts the rows of earlier processes, *stored*, for the next compaction."""
        self._appended = stored.rows - stored.compacted_rows
        self._compact_after = self._due_after(stored.compacted_rows)

    def _rows_of(self, finished: FinishedRuns) -> list[dict[str, Any]]:
        first, last = finished.batches
        return [
            {
                "flow": str(self._flow),
                "generation": finished.generation,
                "topic": tp.topic,
                "partition": tp.partition,
                "topic_id": finished.topic_ids[tp.topic],
                "src_from": run.src_from,
                "src_until": run.src_until,
                "tgt_from": run.tgt_from,
                "count": run.count,
                "first_batch": first,
                "last_batch": last,
                "written_at": now(),
                **finished.epochs.get(tp, UNKNOWN).columns,
            }
            for tp, runs in finished.runs.items()
            for run in runs
        ]

    def _compact(self) -> None:
        """Rewrites the flow's map in fewer rows; the next one is due when it has doubled.

        The answers of the map stay what they were, but for what thinning gives up.
        """
        began = time.monotonic()
        try:
            left = self._tables.rewrite(
                OFFSET_RUNS,
                f"flow = {literal(self._flow)}",
                partial(compacted, flow=self._flow),
                "compact",
            )
        except StateError as error:  # another flow's compaction came between: no row is lost
            self.log.warning("compaction_failed", text=error)
            self._appended = 0
            return
        self._appended = 0
        self._compact_after = self._due_after(left)
        seconds = round(time.monotonic() - began, 1)
        self.log.debug("map_compacted", left=left, seconds=seconds)

    def _due_after(self, left: int) -> int:
        if self._least is not None:
            return max(left, self._least)
        return due_after(left, is_quick=self._tables.storage.is_quick)


# The table ``first_topics``: what a flow found on the source when it first started.

FIRST_TOPICS: Final = "first_topics"
NO_TOPIC: Final = ""
"""The topic of a row that only says that the flow has started."""


def first_start_of(rows: Iterable[TableRow], *, has_started: bool) -> FirstStart | None:
    """Returns what the *rows* of a flow say; None if it has not started yet.

    Args:
        rows: Of the flow. It has none if it first started with another ``auto.offset.reset``.
        has_started: Whether the offset map has rows of it.
    """
    known = list(rows)
    if not known:
        return FirstStart() if has_started else None
    selected = [row for row in known if row.get("partition") is not None]
    return FirstStart(
        frozenset(row["topic"] for row in known),
        {
            TopicPartition(row["topic"], row["partition"]): row["end_offset"]
            for row in selected
            if row["end_offset"] is not None
        },
        {row["topic"]: row["topic_id"] for row in selected},
    )


def rows_of(
    flow: Flow,
    names: Collection[str],
    topic_ids: Mapping[str, str],
    ends: Mapping[TopicPartition, int | None],
) -> list[dict[str, Any]]:
    """Returns the rows of a flow's first start.

    Args:
        flow: The flow.
        names: All topics of the source.
        topic_ids: Of the topics that the flow selects.
        ends: The log ends of their partitions; None where no broker leads one.
    """
    common = {"flow": str(flow), "at": datetime.now(timezone.utc)}
    others = {NO_TOPIC, *names} - topic_ids.keys()
    return [{**common, "topic": name} for name in sorted(others)] + [
        {
            **common,
            "topic": tp.topic,
            "topic_id": topic_ids[tp.topic],
            "partition": tp.partition,
            "end_offset": end,
        }
        for tp, end in sorted(ends.items())
    ]
