"""Task slots are counted by what the scheduler can run, whatever a setting says."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.local import REPOSITORY

pytestmark = pytest.mark.spark

# Where the master has executors of its own, the first answer may be none.
PROGRAM = """
import json, sys, time
from pyspark.sql import SparkSession
from replication.spark.session import task_slots
counted = []
for master, settings in json.loads(sys.argv[1]):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    wanted = int(settings.get("wanted", "0"))
    while task_slots(spark) < wanted:
        time.sleep(0.1)
    counted.append(task_slots(spark))
    spark.stop()
print(json.dumps(counted))
"""


def test_no_setting_is_taken_for_the_slots_that_there_are() -> None:
    sessions: list[tuple[str, dict[str, str]]] = [
        ("local[4]", {}),
        ("local[4]", {"spark.default.parallelism": "64"}),
        ("local[4]", {"spark.default.parallelism": "2"}),
        ("local[8]", {"spark.default.parallelism": "64", "spark.task.cpus": "2"}),
        ("local[8]", {"spark.default.parallelism": "64", "spark.task.cpus": "3"}),
        (
            "local-cluster[2,4,512]",
            {"spark.task.cpus": "3", "spark.executor.memory": "512m", "wanted": "2"},
        ),
    ]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(sessions)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [4, 4, 4, 4, 2, 2]
