"""A Spark job whose first attempt loses its executor and whose second one would succeed.

Run as a program with a master's URL and settings of Spark. Prints what became of the job.
"""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replication.spark.acknowledged import GENERATION_PROPERTY, PLUGIN, PLUGINS
from replication.spark.session import REQUIRED, spark_jars

CLEAN = {key: REQUIRED[key] for key in ("spark.task.maxFailures", "spark.speculation")}


def lose_the_executor_once(numbers: Iterable[int]) -> Iterable[int]:
    """Kills the first attempt's executor, the parent of this process's parent, and its worker.

    A worker that lives would report the exit code, and Spark would count that as a failure.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        executor = _parent(os.getppid())
        os.kill(_parent(executor), signal.SIGKILL)
        os.kill(executor, signal.SIGKILL)
    return numbers


def _parent(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("PPid:")))


def main(master: str, *settings: str) -> None:
    jars = ",".join(map(str, spark_jars()))
    builder = SparkSession.builder.master(master).config("spark.jars", jars)
    given = dict(setting.split("=", 1) for setting in settings)
    for key, value in {**CLEAN, **given, PLUGINS: PLUGIN, "spark.ui.enabled": "false"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLocalProperty(GENERATION_PROPERTY, "A->B#1")
    try:
        numbers = spark.sparkContext.parallelize([1], 1).mapPartitions(lose_the_executor_once)
        print("succeeded", numbers.collect())  # noqa: T201 - the answer
    except (PySparkException, Py4JJavaError) as error:
        print("failed", error)  # noqa: T201 - the answer
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
