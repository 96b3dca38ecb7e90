"""The driver's JVM tells its heap, its CPU time and what garbage collection took of it."""

import pytest
from pyspark.sql import SparkSession

from replication.spark.jvm_figures import jvm_use
from replication.spark.session import jvm_of

pytestmark = pytest.mark.spark


def test_the_use_of_the_jvm_grows(spark: SparkSession) -> None:
    before = jvm_use(jvm_of(spark))
    spark.range(1_000_000).selectExpr("sum(id * id % 7)").collect()
    after = jvm_use(jvm_of(spark))

    assert before is not None
    assert after is not None
    assert after.cpu_seconds > before.cpu_seconds > 0
    assert after.gc_seconds >= before.gc_seconds >= 0
    assert 0 < after.heap["used"] <= after.heap["max"]
