"""A record on which an expression throws is found by its offset, and nothing else is blamed."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replication.model import TopicPartition
from replication.spark.counting import throwing_records

pytestmark = pytest.mark.spark

TP = TopicPartition("t", 0)
Windows = Mapping[TopicPartition, tuple[int, int]]


@given(thrown=st.sets(st.integers(10, 40), max_size=3))
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_first_record_that_throws_is_found(spark: SparkSession, thrown: set[int]) -> None:
    def read(windows: Windows) -> DataFrame:
        ((start, until),) = windows.values()
        return spark.range(start, until).withColumnRenamed("id", "offset")

    def evaluate(records: DataFrame) -> DataFrame:
        index = F.when(F.col("offset").isin([*thrown, -1]), 0).otherwise(1)
        return records.select(F.element_at(F.array(F.lit(1)), index.cast("int")))

    found = throwing_records(read, evaluate, {TP: (5, 50)})

    assert {tp: at.offset for tp, at in found.items()} == ({TP: min(thrown)} if thrown else {})
    assert all("INVALID_INDEX_OF_ZERO" in at.text for at in found.values())


def test_what_cannot_be_read_blames_no_record(spark: SparkSession) -> None:
    def read(_windows: Windows) -> DataFrame:
        return spark.range(5).where(F.raise_error(F.lit("no broker")).isNull())

    with pytest.raises(PySparkException, match="no broker"):
        throwing_records(read, lambda records: records, {TP: (0, 5)})


def test_a_moment_s_trouble_blames_no_record(spark: SparkSession) -> None:
    failing = iter([True])

    def read(windows: Windows) -> DataFrame:
        ((start, until),) = windows.values()
        return spark.range(start, until)

    def evaluate(records: DataFrame) -> DataFrame:
        lost = F.raise_error(F.lit("an executor is lost")).isNull()
        return records.where(lost) if next(failing, False) else records

    assert throwing_records(read, evaluate, {TP: (5, 50)}) == {}
    assert list(failing) == []
