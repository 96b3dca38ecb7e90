"""The section ``hadoop.`` reaches all that reads or writes a state directory away from here.

Hadoop's viewfs is a file system that exists by its configuration only: a table of mounts.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.kafka.jvm import open_jvm
from replication.model import Flow
from replication.spark.hadoop import hadoop_conf, set_hadoop_properties
from replication.state.files import HadoopFiles, hadoop_class_path
from replication.state.tables import Tables
from tests.support.frames import frame

pytestmark = pytest.mark.spark


@pytest.fixture
def mount(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """A URI of this test's own, and the properties without which nothing is there."""
    name = request.node.originalname.replace("_", "-")
    (tmp_path / "state").mkdir()
    key = f"fs.viewfs.mounttable.{name}.link./state"
    return f"viewfs://{name}/state", {key: (tmp_path / "state").as_uri()}


def test_tables_are_written_and_read(
    spark: SparkSession, mount: tuple[str, Mapping[str, str]], tmp_path: Path
) -> None:
    uri, properties = mount
    set_hadoop_properties(spark, properties)

    Tables(spark, uri).record_event(Flow("A", "B"), "rejoined", "text", reaction="match")

    (row,) = frame(Tables(spark, uri), "events").collect()
    assert row.text == "text"
    assert (tmp_path / "state" / "events" / "_delta_log").is_dir()


def test_requests_are_written_without_spark(
    mount: tuple[str, Mapping[str, str]], tmp_path: Path
) -> None:
    uri, properties = mount

    with open_jvm(hadoop_class_path()) as jvm:
        HadoopFiles(jvm, hadoop_conf(jvm, properties)).create(f"{uri}/request", "text")

    assert (tmp_path / "state" / "request").read_text() == "text"
