"""How many consumers Spark's Kafka source keeps from one batch to the next.

Where it has more, it closes idle ones as soon as a task asks for a consumer; and a consumer that is
closed waits for the answer to its last fetch, for ``fetch.max.wait.ms`` if no record comes. With
200 partitions in Real-Time Mode and room for 64, records waited for 4.5 s at the end of each batch.
"""

import os
import re
from typing import Final

from pyspark import SparkConf
from pyspark.sql import SparkSession

CAPACITY: Final = "spark.kafka.consumer.cache.capacity"
_BY_DEFAULT: Final = 64
_LOCAL_SLOTS: Final = re.compile(r"local(?:\[(\d+|\*).*)?")


def room_for(slots: int) -> int:
    """Returns how many consumers to keep: one of each task, and those of a generation just ended.

    Args:
        slots: Tasks that run at once in one process.
    """
    return max(_BY_DEFAULT, 2 * slots)


def slots_of_a_process(conf: SparkConf) -> int | None:
    """Returns how many tasks run at once in a local master's driver, else in each executor.

    None where only Spark knows: ``spark.executor.cores`` is not set.
    """
    cores = conf.get("spark.executor.cores")
    if local := _LOCAL_SLOTS.fullmatch(conf.get("spark.master") or ""):
        cores = str(os.cpu_count()) if local[1] == "*" else local[1] or "1"
    return max(1, int(cores) // int(conf.get("spark.task.cpus") or 1)) if cores else None


def keeps_all(spark: SparkSession, slots: int) -> bool:
    """Returns whether the consumers of all tasks have room.

    Args:
        spark: The session.
        slots: Those of the application, which one process has at most.
    """
    conf = spark.sparkContext.getConf()
    kept = int(conf.get(CAPACITY) or _BY_DEFAULT)
    return room_for(slots_of_a_process(conf) or slots) <= kept
