"""The class archive of the set-up: this session's JVM maps it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.spark.class_archive import archive_options, class_path, folder
from replication.spark.session import jvm_of


def test_the_jvm_has_mapped_the_archive(spark: SparkSession) -> None:
    process = jvm_of(spark).java.lang.ProcessHandle.current().pid()

    assert str(folder() / "classes.jsa") in Path(f"/proc/{process}/maps").read_text()


def test_deltas_classes_come_from_the_class_path_that_the_archive_covers(
    spark: SparkSession,
) -> None:
    delta = jvm_of(spark).io.delta.tables.DeltaTable
    loader = delta._java_lang_class.getClassLoader()  # noqa: SLF001 - py4j's name for it

    assert "AppClassLoader" in loader.toString()


def test_without_an_archive_there_are_no_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPLICATION_HOME", str(tmp_path))

    assert archive_options() == ("", "")
    assert class_path() == ""
