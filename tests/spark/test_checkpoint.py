"""Spark's own checkpoint of a query."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.spark.counting import trigger_stream
from replication.spark.session import checkpoint_location
from tests.support.local import Until

pytestmark = pytest.mark.spark


def test_hadoop_starts_no_process_and_writes_no_checksum_for_a_checkpoint(
    spark: SparkSession, tmp_path: Path, until: Until
) -> None:
    folder = tmp_path / "a folder"
    writer = trigger_stream(spark).writeStream.format("noop")

    query = writer.option("checkpointLocation", checkpoint_location(spark, folder)).start()
    until((folder / "commits" / "2").exists, 30)
    query.stop()

    written = [file for file in folder.rglob("*") if file.is_file()]
    assert {"metadata", "offsets", "commits"} <= {
        file.relative_to(folder).parts[0] for file in written
    }
    assert not [file for file in written if file.suffix == ".crc"]
