"""Small frames: rows of this process as a frame, and a stream that only keeps time."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """Makes a frame of *schema* from *rows*.

    `createDataFrame` sends a list through Python workers, which take seconds to start. A JSON
    literal is read in the JVM.

    Args:
        spark: The session.
        rows: Columns by name; an absent one is null. Times are aware datetimes, a
            binary is bytes.
        schema: The columns as in SQL: ``topic string, partition int``.
    """
    text = json.dumps(list(rows), default=_text)
    parsed = F.from_json(F.lit(text), f"array<struct<{schema}>>")
    return spark.range(1).select(F.inline(parsed))


def _text(value: object) -> str:
    """Returns *value* as Spark reads it in JSON, which has neither times nor bytes."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a row of a table has a {type(value).__name__}")


def trigger_stream(spark: SparkSession) -> DataFrame:
    """Returns a stream of one row in each micro-batch, for a query that only needs its trigger."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return stream.option("numPartitions", 1).load()
