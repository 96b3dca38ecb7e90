"""Room for the consumers of one process of Spark's."""

import os

import pytest
from pyspark import SparkConf

from replication.spark.kept_consumers import room_for, slots_of_a_process


def conf(**settings: str) -> SparkConf:
    made = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        made.set(f"spark.{name.replace('_', '.')}", value)
    return made


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"master": "local"}, 1),
        ({"master": "local[408]"}, 408),
        ({"master": "local[4,2]"}, 4),
        ({"master": "local[*]"}, os.cpu_count()),
        ({"master": "local[*,2]"}, os.cpu_count()),
        ({"master": "local[8]", "executor_cores": "3"}, 8),
        ({"master": "yarn", "executor_cores": "80"}, 80),
        ({"master": "local-cluster[2,3,1024]"}, None),
        ({"master": "local[8]", "task_cpus": "2"}, 4),
        ({"master": "yarn", "executor_cores": "5", "task_cpus": "2"}, 2),
        ({"master": "yarn"}, None),
        ({}, None),
    ],
)
def test_the_slots_of_a_process_follow_from_the_master_or_the_executors(
    settings: dict[str, str], slots: int | None
) -> None:
    assert slots_of_a_process(conf(**settings)) == slots


def test_two_consumers_for_each_slot_and_no_fewer_than_spark_keeps_anyway() -> None:
    assert [room_for(slots) for slots in (1, 32, 33, 408)] == [64, 64, 66, 816]
