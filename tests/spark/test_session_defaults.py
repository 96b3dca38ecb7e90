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
import sys
from replication.model import Flow
from replication.spark.acknowledged import Acknowledged, generation_tag
from replication.spark.local import spark_jars
from replication.spark.session import local_session
log = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
log["spark.eventLog.dir"] = sys.argv[1]
spark = local_session(spark_jars(), 2, "test", settings=log)
reports = Acknowledged(spark, Flow("A", "B"), 1)
with generation_tag(spark, Flow("A", "B"), 1, limits={}):
    print(spark.range(1).collect(), spark.sparkContext.getLocalProperty(sys.argv[2]))
spark.stop()
"""


def test_the_token_of_a_generation_is_in_no_event_log(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TAGGED, tmp_path.as_uri(), GENERATION_PROPERTY],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    token, generation = done.stdout.split()[-2:]
    text = "".join(file.read_text(encoding="utf-8") for file in tmp_path.rglob("events_*"))

    assert (len(token), generation) == (36, "A->B#1")
    assert GENERATION_PROPERTY in text
    assert token not in text
