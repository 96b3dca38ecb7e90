"""Where a query keeps Spark's own checkpoint, which nothing reads after the query."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from replication.spark.acknowledged import is_on_class_path
from replication.spark.hadoop import session_conf
from replication.spark.session import jvm_of

SCHEME: Final = "plain"
FILE_SYSTEM: Final = "replication.plugin.PlainFiles"


def temporary_folder(spark: SparkSession) -> str | None:
    """Returns Java's folder for temporary files, chosen by a platform; None if it is not here.

    Python's is ``/tmp`` where nothing is said, and systems delete what has been there for ten days.
    """
    folder = str(jvm_of(spark).java.lang.System.getProperty("java.io.tmpdir"))
    return folder if Path(folder).is_dir() else None


def checkpoint_location(spark: SparkSession, folder: Path) -> str:
    """Returns the option ``checkpointLocation`` for *folder*, which is on the driver's machine.

    With our jar the files are written by `FILE_SYSTEM`, in a tenth of the time that Hadoop takes.
    """
    if not is_on_class_path(jvm_of(spark)):
        return f"file:{folder}"
    session_conf(spark).set(f"fs.{SCHEME}.impl", FILE_SYSTEM)
    return f"{SCHEME}:{folder}"  # not `as_uri`: Hadoop does not decode the escapes of a URI
