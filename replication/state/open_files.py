"""Opens the files of requests in a process: this machine's, objects, or Hadoop's in a small JVM."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replication.config.home import connector_jars, storage_class_path
from replication.kafka.jvm import open_jvm, pyspark_jars
from replication.spark.hadoop import hadoop_conf
from replication.state.request_files import HadoopFiles, LocalFiles, RequestFiles
from replication.state.storage import Storage


@contextmanager
def open_files(storage: Storage) -> Iterator[RequestFiles]:
    """Yields the files under a state directory, for a process that has no Spark.

    Raises:
        SetupError: Only Hadoop's client reaches it, and Java, which that needs, does not start.
    """
    if (files := files_without_java(storage)) is not None:
        yield files
        return
    with open_jvm(hadoop_class_path()) as jvm:
        yield HadoopFiles(jvm, hadoop_conf(jvm, storage.access.hadoop))


def files_without_java(storage: Storage) -> RequestFiles | None:
    """Returns the files under a state directory; None if only Hadoop's client reaches them."""
    if storage.is_local:
        return LocalFiles()
    if not storage.has_objects:
        return None
    # Imported here because most state directories are not on S3
    from replication.state.object_files import ObjectFiles  # noqa: PLC0415

    return ObjectFiles(storage)


def hadoop_class_path() -> list[Path]:
    """Returns the jars of Hadoop's client and its configuration, for a JVM without Spark."""
    conf = os.environ.get("HADOOP_CONF_DIR")
    storage = [Path(path) for path in (storage_class_path(),) if path]
    return [*([Path(conf)] if conf else []), *pyspark_jars(), *connector_jars(), *storage]
