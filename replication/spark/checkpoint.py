"""Where a query keeps Spark's own checkpoint, which nothing reads after the query."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from replication.spark.acknowledged import is_on_class_path
from replication.spark.hadoop import session_conf
from replication.spark.session import jvm_of

SCHEME: Final = "plain"
FILE_SYSTEM: Final = "replication.PlainFiles"


def checkpoint_location(spark: SparkSession, folder: Path) -> str:
    """The option ``checkpointLocation`` for *folder*, which is on the driver's machine.

    With our jar the files are written by `FILE_SYSTEM`, in a tenth of the time that Hadoop takes.
    """
    if not is_on_class_path(jvm_of(spark)):
        return f"file:{folder}"
    session_conf(spark).set(f"fs.{SCHEME}.impl", FILE_SYSTEM)
    return f"{SCHEME}:{folder}"  # not `as_uri`: Hadoop does not decode the escapes of a URI
