"""The offset map of one flow, in the Delta table ``offset_runs``."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from replication.errors import StateError
from replication.model import Flow, Position, TopicPartition
from replication.offsets.map import OffsetMap
from replication.offsets.runs import OffsetRun, merge_runs
from replication.spark.session import frame_of
from replication.state.tables import SCHEMAS, Tables, now

log = logging.getLogger(__name__)

TABLE = "offset_runs"
OLDEST_FIRST = ("generation", "tgt_from", "written_at")

COMPACT_ABOVE_ROWS = 1_000
"""Rows above which a flow's runs are merged at its next start; while it runs, see `append`."""

COMPACT_AFTER_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last known pair of equal positions of a source partition, and whose topic it was."""

    position: Position
    topic_id: str


@dataclass(frozen=True, slots=True)
class StoredProgress:
    """What the next start of a flow needs to know of all earlier ones.

    ``replicated_until`` is the greatest source offset ever replicated, of the newest topic id.
    """

    last_generation: int
    anchors: dict[TopicPartition, Anchor]
    replicated_until: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TopicMap:
    """A partition's offset map and the id of the topic its source offsets belong to."""

    topic_id: str
    offsets: OffsetMap


class OffsetTable:
    """*flow*'s rows of ``offset_runs``. One process writes them: the holder of its lease."""

    def __init__(self, tables: Tables, flow: Flow) -> None:
        self._tables, self._flow = tables, flow
        self._appended, self._compact_after = 0, COMPACT_AFTER_ROWS

    def append(
        self,
        generation: int,
        runs: Mapping[TopicPartition, Iterable[OffsetRun]],
        topic_ids: Mapping[str, str],
        batches: tuple[int, int] = (-1, -1),
    ) -> None:
        """Appends the map's newest runs; *batches* are the first and last Spark batch.

        After many rows the whole map is merged, later the longer it stays nevertheless.
        """
        first, last = batches
        rows = [
            {
                "flow": str(self._flow),
                "generation": generation,
                "topic": tp.topic,
                "partition": tp.partition,
                "topic_id": topic_ids[tp.topic],
                "src_from": run.src_from,
                "src_until": run.src_until,
                "tgt_from": run.tgt_from,
                "count": run.count,
                "first_batch": first,
                "last_batch": last,
                "written_at": now(),
            }
            for tp, its in runs.items()
            for run in its
        ]
        self._tables.append(TABLE, rows)
        self._appended += len(rows)
        if self._appended >= self._compact_after:
            left = self._compact(self._rows())
            self._appended, self._compact_after = 0, max(COMPACT_AFTER_ROWS, left)

    def books(self) -> StoredProgress:
        """Where the flow stood when its newest runs were written; compacts a long map on the way.

        One read of the flow's rows, for a start is a chain of such reads otherwise.
        """
        rows = self._rows()
        if len(rows) > COMPACT_ABOVE_ROWS:
            self._compact(rows)
        anchors: dict[TopicPartition, Anchor] = {}
        until: dict[TopicPartition, int] = {}
        for row in rows:  # oldest first: the newest stays
            tp = TopicPartition(row["topic"], row["partition"])
            position = Position(row["src_until"], row["tgt_from"] + row["count"])
            same = tp in anchors and anchors[tp].topic_id == row["topic_id"]
            until[tp] = max(until[tp], position.upstream) if same else position.upstream
            anchors[tp] = Anchor(position, row["topic_id"])
        return StoredProgress(max((row["generation"] for row in rows), default=0), anchors, until)

    def runs(self, tp: TopicPartition, topic_id: str | None = None) -> list[OffsetRun]:
        """The map of one partition, merged, for *topic_id* or the newest one."""
        of_partition = (F.col("topic") == tp.topic) & (F.col("partition") == tp.partition)
        rows = self._collect(
            self._tables.of(TABLE, self._flow).where(of_partition).orderBy(*OLDEST_FIRST)
        )
        wanted = topic_id or (rows[-1]["topic_id"] if rows else None)
        return merge_runs(_run(row) for row in rows if row["topic_id"] == wanted)

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        """The maps of the newest topic ids as far as they tell of the positions *least* and later.

        Partitions without runs are absent. Of what lies wholly before *least* only the last run is
        read, which says that there was something: years of a sparse partition are many rows.
        """
        wanted = frame_of(
            self._tables.spark,
            [
                {"topic": tp.topic, "partition": tp.partition, "least": it}
                for tp, it in least.items()
            ],
            "topic string, partition int, least bigint",
        )
        runs = self._tables.of(TABLE, self._flow).join(F.broadcast(wanted), ["topic", "partition"])
        newest = F.struct(*OLDEST_FIRST, *_COLUMNS)
        ends_before = F.when(
            F.col("src_until") < F.col("least"), F.struct("src_until", *OLDEST_FIRST)
        )
        always = (
            runs.groupBy("topic", "partition")
            .agg(
                F.max(newest).alias("newest"),
                F.max_by(newest, ends_before).alias("before"),
            )
            .select("topic", "partition", F.explode(F.array("newest", "before")).alias("run"))
            .where("run is not null")
            .select("topic", "partition", "run.*")
        )
        rows = self._collect(
            runs.where("src_until >= least")
            .select("topic", "partition", *OLDEST_FIRST, *_COLUMNS)
            .union(always)
            .orderBy(*OLDEST_FIRST)
        )
        partitions: dict[TopicPartition, list[Row]] = {}
        for row in rows:
            partitions.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
        return {tp: _map(its) for tp, its in partitions.items()}

    def _rows(self) -> list[Row]:
        return self._collect(self._tables.of(TABLE, self._flow).orderBy(*OLDEST_FIRST))

    def _compact(self, rows: list[Row]) -> int:
        """Rewrites the flow's map with adjacent runs merged, and says how many rows are left.

        One atomic Delta commit; the answers of the map stay what they were.
        """
        merged = list(_merged_rows(rows))
        try:
            with self._tables.state_errors("compact", TABLE):
                frame = frame_of(self._tables.spark, merged, SCHEMAS[TABLE]).coalesce(1)
                (
                    frame.write.format("delta")
                    .mode("overwrite")
                    .option("replaceWhere", f"flow = '{self._flow}'")
                    .save(self._tables.path(TABLE))
                )
        except StateError as error:  # another flow's upkeep came between: the rows are all there
            log.warning("%s", error)
            return len(rows)
        log.info("compacted flow=%s rows=%d to=%d", self._flow, len(rows), len(merged))
        return len(merged)

    def _collect(self, frame: DataFrame) -> list[Row]:
        return self._tables.collect(frame, TABLE)


_COLUMNS = ("topic_id", "src_from", "src_until", "count")


def _run(row: Row) -> OffsetRun:
    return OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])


def _map(rows: list[Row]) -> TopicMap:
    """The map of one partition's *rows*, oldest first."""
    topic_id = rows[-1]["topic_id"]
    return TopicMap(topic_id, OffsetMap(_run(row) for row in rows if row["topic_id"] == topic_id))


def _merged_rows(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The same map in fewer rows. Each keeps the newest generation and time of what it replaces."""
    partitions: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        partitions.setdefault((row["topic"], row["partition"], row["topic_id"]), []).append(row)
    for its in partitions.values():
        for run in merge_runs(map(_run, its)):
            last = max(
                (row for row in its if run.tgt_from <= row["tgt_from"] <= run.tgt_until),
                key=lambda row: (row["generation"], row["tgt_from"]),
            )
            yield {
                **last.asDict(),
                "src_from": run.src_from,
                "src_until": run.src_until,
                "tgt_from": run.tgt_from,
                "count": run.count,
                "first_batch": -1,
            }
