"""The driver's JVM tells its heap, its CPU time and what garbage collection took of it."""

import os

import pytest
from pyspark.sql import SparkSession

from replication.java import java_class
from replication.spark.acknowledged import JVM_FIGURES, read_use
from replication.spark.session import jvm_of

pytestmark = pytest.mark.spark


def test_the_use_of_the_jvm_grows(spark: SparkSession) -> None:
    figures = java_class(jvm_of(spark), JVM_FIGURES).figures
    before = read_use(figures())
    spark.range(1_000_000).selectExpr("sum(id * id % 7)").collect()
    after = read_use(figures())

    assert after.cpu_seconds > before.cpu_seconds > 0
    assert after.gc_seconds >= before.gc_seconds >= 0
    assert 0 < after.heap["used"] <= after.heap["max"]


def test_the_jvm_knows_whose_child_it_is(spark: SparkSession) -> None:
    assert java_class(jvm_of(spark), JVM_FIGURES).parent() == os.getpid()
