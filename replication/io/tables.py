"""The Delta tables under the state directory: the books of every flow (design.md, section 4).

Append-only and partitioned by flow. A failure to read or write is a `StateError`: records already
written stay where they are, and the next start finds its positions from the last rows and the
target's log.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from replication.errors import StateError
from replication.io.session import bookkeeping_session, frame_of
from replication.model import Flow, Position, TopicPartition
from replication.plan import TopicPlan
from replication.runs import OffsetRun, merge_runs

log = logging.getLogger(__name__)

SCHEMAS = {
    "offset_runs": (
        "flow string, generation bigint, topic string, partition int, topic_id string, "
        "src_from bigint, src_until bigint, tgt_from bigint, count bigint, "
        "first_batch bigint, last_batch bigint, written_at timestamp"
    ),
    "events": (
        "flow string, at timestamp, kind string, topic string, partition int, "
        "offset_from bigint, offset_until bigint, policy string, text string"
    ),
    "topics": (
        "flow string, generation bigint, topic string, remote_topic string, topic_id string, "
        "partitions int, at timestamp"
    ),
    "leases": (
        "flow string, epoch bigint, owner string, host string, since timestamp, "
        "renewed timestamp, released boolean"
    ),
}

_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")

COMPACT_ABOVE_ROWS = 1_000
"""Rows of one flow above which its runs are merged at the next start."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last known pair of equal positions of a source partition, and whose topic it was."""

    position: Position
    topic_id: str


@dataclass(frozen=True, slots=True)
class Books:
    """What the next start of a flow needs to know of all earlier ones."""

    last_generation: int
    anchors: dict[TopicPartition, Anchor]


class Tables:
    """All tables of one state directory. Reads see every earlier write of any process."""

    def __init__(self, spark: SparkSession, state_dir: str) -> None:
        self._spark = bookkeeping_session(spark)
        self.root = state_dir.rstrip("/")

    def path(self, table: str) -> str:
        """Where *table* lies; a Delta path for SQL: ``delta.`path` ``."""
        return f"{self.root}/{table}"

    def exists(self, table: str) -> bool:
        """Whether anything was ever appended to *table*."""
        context = self._spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001 - Hadoop's file systems, whatever the URI
        log_folder = jvm.org.apache.hadoop.fs.Path(f"{self.path(table)}/_delta_log")
        with self._state_errors("find", table):
            files = log_folder.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
            return bool(files.exists(log_folder))

    def append(
        self,
        table: str,
        rows: Iterable[Mapping[str, Any]],
        transaction: tuple[str, int] | None = None,
    ) -> None:
        """Appends *rows* in one commit: all of them or none.

        Args:
            table: A key of `SCHEMAS`.
            rows: Columns by name; an absent one is null.
            transaction: An application id and version; Delta accepts each version once, and
                silently skips a repeated one.
        """
        values = list(rows)
        if not values:
            return
        with self._state_errors("append to", table):
            frame = frame_of(self._spark, values, SCHEMAS[table]).coalesce(1)
            writer = frame.write.format("delta").mode("append").partitionBy("flow")
            if transaction is not None:
                name, version = transaction
                writer = writer.option("txnAppId", name).option("txnVersion", version)
            writer.save(self.path(table))

    def append_runs(
        self,
        flow: Flow,
        generation: int,
        runs: Mapping[TopicPartition, Iterable[OffsetRun]],
        topic_ids: Mapping[str, str],
        batches: tuple[int, int] = (-1, -1),
    ) -> None:
        """Appends the offset map's newest runs; *batches* are the first and last Spark batch."""
        first, last = batches
        self.append(
            "offset_runs",
            (
                {
                    "flow": str(flow),
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
                    "written_at": _now(),
                }
                for tp, its in runs.items()
                for run in its
            ),
        )

    def append_topics(self, flow: Flow, generation: int, plan: TopicPlan) -> None:
        """Appends what *generation* replicates: a row a topic."""
        self.append(
            "topics",
            (
                {
                    "flow": str(flow),
                    "generation": generation,
                    "topic": topic,
                    "remote_topic": remote,
                    "topic_id": plan.source_ids[topic],
                    "partitions": sum(tp.topic == topic for tp in plan.partitions),
                    "at": _now(),
                }
                for topic, remote in plan.topics.items()
            ),
        )

    def event(self, flow: Flow, kind: str, text: str, **details: str | int) -> None:
        """Records that *kind* happened to *flow*; *details* are further columns of ``events``."""
        log.warning("event flow=%s kind=%s %s", flow, kind, text)
        row = {"flow": str(flow), "at": _now(), "kind": kind, "text": text, **details}
        self.append("events", [row])

    def books(self, flow: Flow) -> Books:
        """Where *flow* stood when its newest runs were written; long maps are compacted on the way.

        One read of the flow's rows, for a start is a chain of such reads otherwise.
        """
        runs = self.of("offset_runs", flow).orderBy("generation", "tgt_from", "written_at")
        rows = self.collect(runs, "offset_runs")
        if len(rows) > COMPACT_ABOVE_ROWS:
            self._compact(flow, rows)
        anchors = {}
        for row in rows:  # oldest first: the newest stays
            position = Position(row["src_until"], row["tgt_from"] + row["count"])
            anchors[TopicPartition(row["topic"], row["partition"])] = Anchor(
                position, row["topic_id"]
            )
        return Books(max((row["generation"] for row in rows), default=0), anchors)

    def runs(self, flow: Flow, tp: TopicPartition, topic_id: str | None = None) -> list[OffsetRun]:
        """The offset map of one partition, merged, for *topic_id* or the newest one."""
        of_partition = (F.col("topic") == tp.topic) & (F.col("partition") == tp.partition)
        runs = (
            self.of("offset_runs", flow)
            .where(of_partition)
            .orderBy("generation", "tgt_from", "written_at")
        )
        rows = self.collect(runs, "offset_runs")
        wanted = topic_id or (rows[-1]["topic_id"] if rows else None)
        return merge_runs(_run(row) for row in rows if row["topic_id"] == wanted)

    def _compact(self, flow: Flow, rows: list[Row]) -> None:
        """Rewrites *flow*'s offset map with adjacent runs merged.

        One atomic Delta commit; the answers of the map stay what they were.
        """
        merged = list(_merged_rows(rows))
        with self._state_errors("compact", "offset_runs"):
            frame = frame_of(self._spark, merged, SCHEMAS["offset_runs"]).coalesce(1)
            (
                frame.write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", f"flow = '{flow}'")
                .save(self.path("offset_runs"))
            )
        log.info("compacted flow=%s rows=%d to=%d", flow, len(rows), len(merged))

    def read(self, table: str) -> DataFrame:
        """A whole table, as a frame for SQL."""
        if not self.exists(table):
            return frame_of(self._spark, [], SCHEMAS[table])
        with self._state_errors("read", table):
            return self._spark.read.format("delta").load(self.path(table))

    def of(self, table: str, flow: Flow) -> DataFrame:
        """The rows of *flow* in *table*."""
        return self.read(table).where(F.col("flow") == str(flow))

    def collect(self, frame: DataFrame, table: str) -> list[Row]:
        """The rows of *frame*, a query over *table*."""
        with self._state_errors("read", table):
            return frame.collect()

    @contextmanager
    def _state_errors(self, verb: str, table: str) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            # the last cause is the operating system's word: no space, no permission
            first, *causes = [str(error), *_CAUSE.findall(str(error))]
            reason = causes[-1] if causes else first.strip().splitlines()[0]
            raise StateError(
                f"cannot {verb} table {table} at {self.path(table)}: {reason}; "
                "check that state.dir exists, is writable and has space"
            ) from error


def local_path(state_dir: str) -> Path | None:
    """The folder of a ``file:`` state directory, None for any other kind."""
    parts = urlparse(state_dir)
    return Path(unquote(parts.path)) if parts.scheme in {"", "file"} else None


def _run(row: Row) -> OffsetRun:
    return OffsetRun(row["src_from"], row["src_until"], row["tgt_from"], row["count"])


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


def _now() -> datetime:
    return datetime.now(timezone.utc)
