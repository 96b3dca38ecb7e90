"""What a failed job tells its platform, where that is a pod; tests/deploy/test_yarn.py has YARN."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.app import run_history
from replication.app.run_history import JobOutcome, announce
from replication.errors import GuardError
from replication.spark.session import jvm_of

pytestmark = pytest.mark.spark

REFUSAL = JobOutcome.of(GuardError("orders-0 was truncated"), "flow A->B")


def never() -> None:
    pytest.fail("Spark runs already, and this is no YARN")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "exit code 5: flow A->B: orders-0 was truncated",
            id="in a pod",
        ),
        pytest.param({}, "", id="elsewhere"),
    ],
)
def test_a_pod_gets_the_cause_as_its_termination_message(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    expected: str,
) -> None:
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setattr(run_history, "TERMINATION_LOG", file)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    announce(REFUSAL, partial(jvm_of, spark), never)

    assert file.read_text() == expected


def test_without_spark_submit_no_jvm_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    announce(REFUSAL, lambda: pytest.fail("the JVM was asked for"), never)
