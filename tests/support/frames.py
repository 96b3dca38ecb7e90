"""The tables as frames of Spark, for tests that look at what it sees."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replication.model import Flow
from replication.spark.counting import frame_of
from replication.state.schemas import SCHEMAS
from replication.state.tables import Tables


def frame(tables: Tables, table: str, flow: Flow | None = None) -> DataFrame:
    """The rows of *table*, of one *flow* or all; none if it does not exist."""
    if not tables.exists(table):
        return frame_of(tables.spark, [], SCHEMAS[table])
    found = tables.spark.read.format("delta").load(tables.path(table))
    return found.where(F.col("flow") == str(flow)) if flow else found
