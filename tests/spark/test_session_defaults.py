"""What a session has by default, however its job was started: also without spark-submit.sh."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

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
