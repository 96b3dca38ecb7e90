"""What a session has by default, however its job was started: also without spark-submit.sh."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replication.spark.acknowledged import GENERATION_PROPERTY
from replication.spark.session import spark_jars
from tests.support.local import REPOSITORY

pytestmark = pytest.mark.spark

PROGRAM = """
import json
from replication.spark.session import session
context = session("test").sparkContext
redaction = context.getConf().get("spark.redaction.regex")
print(json.dumps({"page": context.uiWebUrl, "redaction": redaction}))
"""


def defaults(**environment: str) -> dict[str, Any]:
    """What a job's session has in local mode, where Python starts Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY, env={**kept, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_no_page_of_spark_listens_on_every_interface_and_secrets_are_redacted() -> None:
    found = defaults()

    assert found["page"] is None
    for key in ("A.sasl.jaas.config", "B.ssl.key.password", "spark.hadoop.fs.s3a.secret.key"):
        assert re.search(found["redaction"], key), key


@pytest.mark.soak
def test_an_operator_may_have_the_page_on_this_machine_only() -> None:
    found = defaults(SPARK_LOCAL_IP="127.0.0.1")

    assert re.match(r"http://(127\.0\.0\.1|localhost):", found["page"])


TAGGED = """
from pyspark import TaskContext
from pyspark.sql.functions import udf
from replication.model import Flow
from replication.spark.acknowledged import GENERATION_PROPERTY, Acknowledged, generation_tag
from replication.spark.session import session
spark = session("test")
reports = Acknowledged(spark, Flow("A", "B"), 1)
with generation_tag(spark, Flow("A", "B"), 1, limits={}):
    seen = udf(lambda: TaskContext.get().getLocalProperty(GENERATION_PROPERTY))
    print(spark.range(1).select(seen()).collect()[0][0])
spark.stop()
"""


def test_a_querys_tasks_have_the_token_of_their_generation_and_no_event_log_has_it(
    tmp_path: Path,
) -> None:
    log = {"enabled": "true", "compress": "false", "dir": tmp_path.as_uri()}
    settings = [f"--conf spark.eventLog.{key}={value}" for key, value in log.items()]
    jars = os.pathsep.join(map(str, spark_jars()))
    submit = " ".join([f"--driver-class-path {jars}", *settings, "pyspark-shell"])
    done = subprocess.run(
        [sys.executable, "-c", TAGGED],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_SUBMIT_ARGS": submit},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    token, generation = done.stdout.split()
    text = "".join(file.read_text(encoding="utf-8") for file in tmp_path.rglob("events_*"))

    assert (len(token), generation) == (36, "A->B#1")
    assert f'"{GENERATION_PROPERTY}":"*********(redacted)"' in text
    assert token not in text
