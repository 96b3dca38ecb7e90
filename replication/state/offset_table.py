"""The offset map of one flow, in the Delta table ``offset_runs``."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replication.errors import StateError
from replication.log import Log
from replication.model import Flow, TopicPartition
from replication.offsets.live_map import TopicMap
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.frames import frame_of
from replication.state.compaction import compacted
from replication.state.local_compaction import compact_local
from replication.state.offset_rows import (
    COMPACTED,
    OFFSET_RUNS,
    OLDEST_FIRST,
    StoredProgress,
    maps_of,
    progress_of,
    runs_of,
)
from replication.state.schemas import SCHEMAS
from replication.state.table_errors import odd_rows
from replication.state.tables import Tables, now

log = Log(__name__)


COMPACT_AFTER_ROWS = 20_000
"""The fewest new rows after which a map is compacted, unless it is short and no Spark is needed."""

FEWEST_ROWS = 200
"""The fewest of a short map. Each drain adds some, and each merge of files writes all of them."""

SHORT = 10
"""A map is short if `COMPACT_AFTER_ROWS` are more than so many times its rows."""


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
        self._least = compact_after
        self._appended = 0
        self._compact_after = self._due_after(0)

    def append(self, finished: FinishedRuns) -> None:
        """Appends the newest runs of the map; compacts it when `due_after` says so."""
        rows = self._rows_of(finished)
        self._tables.append(OFFSET_RUNS, rows)
        self._appended += len(rows)
        if self._appended >= self._compact_after:
            self._compact()

    def replace(self, finished: FinishedRuns) -> None:
        """Replaces the rows about the partitions of *finished*, in one commit."""
        conditions = (
            f"(topic = '{tp.topic}' AND partition = {tp.partition})" for tp in finished.runs
        )
        frame = frame_of(self._tables.spark, self._rows_of(finished), SCHEMAS[OFFSET_RUNS])
        self._overwrite("replace rows of", frame, " OR ".join(conditions))

    def delete(self, partitions: Iterable[TopicPartition], before_generation: int) -> None:
        """Deletes the rows about *partitions* that are older than a generation."""
        of_topic: dict[str, list[int]] = {}
        for tp in partitions:
            of_topic.setdefault(tp.topic, []).append(tp.partition)
        for topic, numbers in of_topic.items():
            condition = (
                f"flow = '{self._flow}' AND generation < {before_generation} "
                f"AND topic = '{topic}' AND partition IN ({', '.join(map(str, numbers))})"
            )
            self._tables.delete(OFFSET_RUNS, condition)

    def progress(self) -> StoredProgress:
        """Returns how far the flow is replicated, by all its rows."""
        with odd_rows(OFFSET_RUNS, self._tables.path(OFFSET_RUNS)):
            return progress_of(self._newest())

    def resume(self, stored: StoredProgress) -> None:
        """Counts the rows of earlier processes, *stored*, for the next compaction."""
        self._appended = stored.rows - stored.compacted_rows
        self._compact_after = self._due_after(stored.compacted_rows)

    def runs(self, tp: TopicPartition) -> list[OffsetRun]:
        """Returns a partition's map, merged, for the newest topic id; [] if there is none."""
        of_partition = (F.col("topic") == tp.topic) & (F.col("partition") == tp.partition)
        rows = self._tables.of(OFFSET_RUNS, self._flow).where(of_partition)
        with odd_rows(OFFSET_RUNS, self._tables.path(OFFSET_RUNS)):
            return runs_of(self._collect(rows.orderBy(*OLDEST_FIRST)))

    def maps(self, least: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicMap]:
        """Returns the newest topic ids' maps, as far as they concern offsets *least* and later.

        Which rows are read: as `OffsetReader.maps` says.
        """
        wanted = frame_of(
            self._tables.spark,
            [
                {"topic": tp.topic, "partition": tp.partition, "least": offset}
                for tp, offset in least.items()
            ],
            "topic string, partition int, least bigint",
        )
        in_order = Window.partitionBy("topic", "partition", "topic_id").orderBy(
            "tgt_from", "count", *OLDEST_FIRST
        )
        runs = (
            self._tables.of(OFFSET_RUNS, self._flow)
            .join(F.broadcast(wanted), ["topic", "partition"])
            .withColumn("next_until", F.lead("src_until").over(in_order))
        )
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
            runs.where("src_until >= least OR next_until >= least")
            .select("topic", "partition", *OLDEST_FIRST, *_COLUMNS)
            .union(always)
            .orderBy(*OLDEST_FIRST)
        )
        with odd_rows(OFFSET_RUNS, self._tables.path(OFFSET_RUNS)):
            return maps_of(rows)

    def _newest(self) -> list[dict[str, Any]]:
        """Returns the newest row of each partition and topic id, and how many there are."""
        groups = self._tables.of(OFFSET_RUNS, self._flow).groupBy("topic", "partition", "topic_id")
        newest = groups.agg(
            F.max(F.struct(*OLDEST_FIRST, "src_until", "count", "src_from")).alias("newest"),
            F.max("src_until").alias("replicated_until"),
            F.count("*").alias("rows"),
            F.count_if(F.col("first_batch") == COMPACTED).alias("compacted"),
        )
        return self._collect(newest.select("*", "newest.*").drop("newest"))

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
            }
            for tp, runs in finished.runs.items()
            for run in runs
        ]

    def _compact(self) -> None:
        """Rewrites the flow's map in fewer rows; the next one is due when it has doubled.

        One atomic Delta commit; the answers of the map stay what they were, but for what thinning
        gives up.
        """
        began = time.monotonic()
        try:
            left = self._write_compacted()
        except StateError as error:  # another flow's compaction came between: no row is lost
            log.warning("compaction_failed", flow=self._flow, text=error)
            self._appended = 0
            return
        self._appended = 0
        self._compact_after = self._due_after(left)
        seconds = round(time.monotonic() - began, 1)
        log.debug("map_compacted", flow=self._flow, left=left, seconds=seconds)

    def _due_after(self, left: int) -> int:
        if self._least is not None:
            return max(left, self._least)
        return due_after(left, is_quick=self._tables.local_folder(OFFSET_RUNS) is not None)

    def _write_compacted(self) -> int:
        """Compacts the map in the table; returns how many rows it has then."""
        tables, folder = self._tables, self._tables.local_folder(OFFSET_RUNS)
        if folder is not None:
            with tables.committing("compact", OFFSET_RUNS), odd_rows(OFFSET_RUNS, str(folder)):
                return compact_local(folder, self._flow)
        source = f"delta.`{tables.path(OFFSET_RUNS)}`"
        self._overwrite("compact", tables.spark.sql(compacted(source, self._flow)))
        rows = tables.of(OFFSET_RUNS, self._flow).agg(F.count("*").alias("rows"))
        return int(self._collect(rows)[0]["rows"])

    def _overwrite(self, verb: str, frame: DataFrame, condition: str = "") -> None:
        """Puts *frame* in the place of the flow's rows, or of those that meet *condition*."""
        where = f"flow = '{self._flow}'" + (f" AND ({condition})" if condition else "")
        with self._tables.committing(verb, OFFSET_RUNS):
            (
                frame.coalesce(1)
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", where)
                .save(self._tables.path(OFFSET_RUNS))
            )

    def _collect(self, frame: DataFrame) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._tables.collect(frame, OFFSET_RUNS)]


_COLUMNS = ("topic_id", "src_from", "src_until", "count")
