"""A Delta table of any storage, written by Spark."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession

from replication.java import known_class
from replication.spark.causes import class_names
from replication.spark.counting import frame_of
from replication.spark.hadoop import session_conf
from replication.spark.session import jvm_of
from replication.state.schemas import (
    PROPERTIES,
    WHOLE,
    KnownTables,
    Met,
    check_columns,
    outdated_properties,
)
from replication.state.stored_table import Before, Query, Replacement, Rows

APPEND_ATTEMPTS: Final = 5
CONFLICT: Final = "io.delta.exceptions.DeltaConcurrentModificationException"


class SparkTable:
    """A `StoredTable` at *path*; it raises `PySparkException` and `Py4JJavaError`.

    A table that is not the one in *known* any more is a `LostTableError`.
    """

    def __init__(self, spark: SparkSession, path: str, known: KnownTables | None = None) -> None:
        self._spark = spark
        self._path = path
        self._name = path.rpartition("/")[2]
        self._known = known or KnownTables()
        self._partitions = [] if self._name in WHOLE else ["flow"]

    def exists(self) -> bool:
        log_folder = jvm_of(self._spark).org.apache.hadoop.fs.Path(f"{self._path}/_delta_log")
        before = self._known.newest(self._name)
        is_there = bool(log_folder.getFileSystem(session_conf(self._spark)).exists(log_folder))
        try:
            found = self._met() if is_there else None
        except Py4JJavaError:  # it is there, and damaged: whoever reads it says how
            return True
        self._known.check(self._name, self._path, before, found)
        return is_there

    def _met(self) -> Met | None:
        """Returns the table as its log says; None if that is empty, as before the first commit."""
        name = "org.apache.spark.sql.delta.DeltaLog"
        deltas = known_class(jvm_of(self._spark), name)
        if deltas is None:  # on Databricks
            return self._known.newest(self._name)
        session = self._spark._jsparkSession  # noqa: SLF001 - Delta has no other door
        snapshot = deltas.forTableWithSnapshot(session, self._path).productElement(1)
        found = Met(snapshot.metadata().id(), snapshot.version())
        return found if found.version >= 0 else None

    def query(self, sql: str) -> list[dict[str, Any]]:
        stored = self._spark.read.format("delta").load(self._path)
        check_columns(self._name, self._path, dict(stored.dtypes))
        return [
            {name: _with_zone(value) for name, value in row.asDict().items()}
            for row in self._sql(sql).collect()
        ]

    def append(self, rows: Rows, schema: str) -> None:  # how many files there are takes a query
        frame = frame_of(self._spark, rows, schema).coalesce(1)
        writer = frame.write.format("delta").mode("append").partitionBy(*self._partitions)
        writer = writer.option("mergeSchema", "true")  # a table of an earlier version
        self.exists()
        for attempt in range(1, APPEND_ATTEMPTS + 1):
            try:
                writer.save(self._path)
                break
            except Py4JJavaError as error:
                # two processes on storage without locks created the table at the same moment
                if attempt == APPEND_ATTEMPTS or CONFLICT not in class_names(
                    error.java_exception.getClass()
                ):
                    raise
        self.exists()  # the first commit has given it its id

    def rewrite(
        self, condition: str, schema: str, parts: Callable[[Query], Iterable[Replacement]]
    ) -> int:
        written = 0
        for part in parts(self.query):  # a literal holds the rows, so each part has its commit
            frame = frame_of(self._spark, part.rows, schema).coalesce(1)
            writer = frame.write.format("delta").mode("overwrite")
            writer = writer.option("mergeSchema", "true")  # a table of an earlier version
            where = f"({condition}) AND ({part.condition})"
            writer.option("replaceWhere", where).save(self._path)
            written += len(part.rows)
        return written

    def files(self) -> int:
        return int(self._detail()["numFiles"])

    def delete(self, condition: str, before: Before | None) -> None:
        if before is not None:
            condition += f" AND {before.column} < TIMESTAMP '{before.time.isoformat()}'"
        self._sql(f"DELETE FROM {{table}} WHERE {condition}").collect()  # noqa: S608 - our own names

    def properties(self) -> dict[str, str]:
        return dict(self._detail()["properties"])

    def created_at(self) -> datetime:
        created: datetime = self._detail()["createdAt"]  # naive and local
        return created.astimezone(timezone.utc)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self._sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({pairs})").collect()

    def outdated_properties(self) -> dict[str, str]:
        return outdated_properties(PROPERTIES, self.properties())

    def merge_files(self, *, only_small: bool = False) -> None:  # noqa: ARG002 - as its settings say
        self._sql("OPTIMIZE {table}").collect()

    def vacuum(self) -> None:
        self._sql("VACUUM {table}").collect()

    def _detail(self) -> Row:
        return self._sql("DESCRIBE DETAIL {table}").collect()[0]

    def _sql(self, sql: str) -> DataFrame:
        """Returns what *sql* gives, in which ``{table}`` stands for this table."""
        return self._spark.sql(sql.replace("{table}", f"delta.`{self._path}`"))


def _with_zone(value: object) -> object:
    # a time of Spark's is naive and local
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
