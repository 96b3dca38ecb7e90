"""Makes the class archive of `replication.spark.class_archive` from what a job loads as it starts.

Set-up runs ``python -m replication.app.train``. There is no cluster yet: the queries of this run
find no broker and fail, after they have loaded the classes of source and sink.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replication.config.group_settings import StateConfig
from replication.config.java_options import written
from replication.model import Flow, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.checkpoint import checkpoint_location
from replication.spark.class_archive import QUIET, class_path, folder
from replication.spark.kafka_options import sink_options, source_options
from replication.spark.local import spark_jars
from replication.spark.projection import counts_column, to_target
from replication.spark.session import flow_session, local_session
from replication.state.maintenance import Maintenance
from replication.state.offset_table import OffsetTable
from replication.state.spark_reader import reader_of
from replication.state.tables import Tables

FLOW = Flow("A", "B")
PARTITION = TopicPartition("training", 0)
KEEP_ROWS = StateConfig(write_interval_seconds=30, retention_days={"events": 1})
NO_BROKER = {
    "bootstrap.servers": "127.0.0.1:9",
    "default.api.timeout.ms": "500",
    "request.timeout.ms": "400",
    "max.block.ms": "500",
}


def train() -> None:
    """Makes the archive and the two files that name its options, in place of earlier ones."""
    shutil.rmtree(folder(), ignore_errors=True)
    part = folder().with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    classes = folder() / "classes.jsa"
    with tempfile.TemporaryDirectory() as state_dir, _dumping_session(part / classes.name) as spark:
        _use_tables(spark, state_dir)
        _start_queries(spark, Path(state_dir))
    (part / "class-path").write_text(class_path())
    (part / "java-options").write_text(f"{written(f'-XX:SharedArchiveFile={classes}')} {QUIET}")
    part.rename(folder())


@contextmanager
def _dumping_session(archive: Path) -> Iterator[SparkSession]:
    """Yields a session whose JVM has left *archive* when the block has ended."""
    option = written(f"-XX:ArchiveClassesAtExit={archive}")
    archive_options = class_path(), f"{option} {QUIET}"
    spark = local_session(spark_jars(), slots=4, app="class archive", archive=archive_options)
    yield spark
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - it has no public name
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _use_tables(spark: SparkSession, state_dir: str) -> None:
    tables, now = Tables(spark, state_dir), datetime.now(timezone.utc)
    offsets = OffsetTable(tables, FLOW)
    offsets.append(FinishedRuns(1, {PARTITION: [OffsetRun(0, 1, 0, 1)]}, {PARTITION.topic: "id"}))
    offsets.resume(reader_of(tables).offsets(FLOW).progress())
    tables.record_event(FLOW, "started-over", "a training run", reaction="restart")
    Maintenance(tables, FLOW, KEEP_ROWS).run(now)


def _start_queries(spark: SparkSession, folder: Path) -> None:
    own = flow_session(spark)
    source = own.readStream.format("kafka").options(**source_options(NO_BROKER, {PARTITION: 0}))
    records = to_target(
        source.load(), {PARTITION.topic: PARTITION.topic}, CopyRule(), intercepted=True
    )
    counted = records.observe("training", counts_column([PARTITION]))
    sink = counted.writeStream.format("kafka").options(
        **sink_options(NO_BROKER, FLOW, intercepted=True)
    )
    triggers: list[dict[str, Any]] = [{"realTime": "60 seconds"}, {"availableNow": True}]
    for number, trigger in enumerate(triggers):
        writer: Any = sink.outputMode("update")  # Spark's own overloads lack realTime
        writer = writer.option(
            "checkpointLocation", checkpoint_location(own, folder / f"c{number}")
        )
        with suppress(PySparkException):
            writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    train()
