"""Makes the class archive of `replication.spark.class_archive` from what a job loads as it starts.

Set-up runs ``python -m replication.app.train``. There is no cluster yet: the queries of this run
find no broker. They plan, compile and run all the same, and what they load of Kafka's client only
with an answer is loaded by its name.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from replication.config.group_settings import StateConfig
from replication.config.home import connector_jars, written
from replication.java import java_class
from replication.model import Flow, TopicPartition
from replication.offsets.copy_rule import CopyRule
from replication.offsets.runs import FinishedRuns, OffsetRun
from replication.spark.class_archive import QUIET, class_path, folder
from replication.spark.kafka_options import sharing_options, sink_options, source_options
from replication.spark.mode import SHARED
from replication.spark.progress import counts_column, to_target
from replication.spark.session import (
    checkpoint_location,
    flow_session,
    jvm_of,
    local_session,
    spark_jars,
)
from replication.state.maintenance import Maintenance
from replication.state.offset_table import OffsetTable
from replication.state.tables import Tables, reader_of

FLOW = Flow("A", "B")
PARTITION = TopicPartition("training", 0)
KEEP_ROWS = StateConfig(write_interval_seconds=30, retention_days={"events": 1})
NO_BROKER = {
    "bootstrap.servers": "127.0.0.1:9",
    "default.api.timeout.ms": "500",
    "request.timeout.ms": "400",
    "max.block.ms": "500",
}
RUN_SECONDS: Final = 8.0
"""How long a query without an end runs; on a busy machine its first batch takes most of that."""


def train() -> None:
    """Makes the archive and the two files that name its options, in place of earlier ones."""
    shutil.rmtree(folder(), ignore_errors=True)
    part = folder().with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    classes = folder() / "classes.jsa"
    with tempfile.TemporaryDirectory() as state_dir, _dumping_session(part / classes.name) as spark:
        _use_tables(spark, state_dir)
        _run_queries(spark, Path(state_dir))
        _load_client(spark)
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


def _run_queries(spark: SparkSession, folder: Path) -> None:
    """Runs a flow's query over rows of Spark's own, and begins it with both Kafka sources."""
    own, starts = flow_session(spark), {PARTITION: 0}
    shared = own.readStream.format(SHARED).options(**sharing_options(NO_BROKER, starts, 1, 1))
    kafka = own.readStream.format("kafka").options(**source_options(NO_BROKER, starts))
    runs: list[tuple[DataFrame, str, dict[str, Any]]] = [
        (_rows(own), "noop", {"processingTime": "0 seconds"}),
        (_rows(own), "kafka", {"processingTime": "0 seconds"}),
        (shared.load(), "kafka", {"realTime": "60 seconds"}),
        (kafka.load(), "kafka", {"availableNow": True}),
    ]
    for number, (records, sink, trigger) in enumerate(runs):
        copies = to_target(
            records, {PARTITION.topic: PARTITION.topic}, CopyRule(), intercepted=True
        )
        counted = copies.observe(f"training {number}", counts_column([PARTITION]))
        writer: Any = counted.writeStream  # Spark's own overloads lack realTime
        writer = writer.format(sink).options(**sink_options(NO_BROKER, FLOW, intercepted=True))
        location = checkpoint_location(own, folder / f"c{number}")
        writer = writer.option("checkpointLocation", location).outputMode("update")
        with suppress(PySparkException):
            query = writer.trigger(**trigger).start()
            query.awaitTermination(RUN_SECONDS)
            query.stop()


def _rows(spark: SparkSession) -> DataFrame:
    values = {
        "key": "CAST(CAST(value AS string) AS binary)",
        "value": "CAST(CAST(value AS string) AS binary)",
        "topic": f"'{PARTITION.topic}'",
        "partition": f"{PARTITION.partition}",
        "offset": "value",
        "timestamp": "timestamp",
        "timestampType": "0",
        "headers": "CAST(NULL AS array<struct<key:string,value:binary>>)",
    }
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return rows.selectExpr(*(f"{text} AS {name}" for name, text in values.items()))


def _load_client(spark: SparkSession) -> None:
    """Loads the classes of Kafka's client, but for those that need a package that is not here."""
    jvm = jvm_of(spark)
    load = java_class(jvm, "java.lang.Class").forName
    loader = java_class(jvm, "java.lang.ClassLoader").getSystemClassLoader()
    for jar in connector_jars("kafka-clients-*"):
        with ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if name.startswith("org/apache/kafka/")]
        for name in names:
            if name.endswith(".class"):
                with suppress(Py4JJavaError):
                    load(name.removesuffix(".class").replace("/", "."), False, loader)


if __name__ == "__main__":
    train()
