"""A session without its jars is a set-up error that names them, before anything else uses it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.errors import SetupError
from replication.spark.session import PACKAGES, check_interceptor, check_packages, jvm_of

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_session_with_its_jars_passes(spark: SparkSession) -> None:
    check_packages(jvm_of(spark))
    check_interceptor(jvm_of(spark))


def test_a_missing_package_is_named(spark: SparkSession) -> None:
    packages = {**PACKAGES, "com.acme.Missing": "a package, package acme"}

    with pytest.raises(SetupError, match=r"class path lacks a package, package acme\. Pass"):
        check_packages(jvm_of(spark), packages)


def test_a_job_without_its_jars_exits_2_and_names_them(tmp_path: Path) -> None:
    config = tmp_path / "mirror.yaml"
    config.write_text(
        "clusters: A, B\n"
        "A.bootstrap.servers: 127.0.0.1:1\n"
        "B.bootstrap.servers: 127.0.0.1:1\n"
        "A->B.enabled: true\n"
        f"state.dir: {(tmp_path / 'state').as_uri()}\n"
    )

    job = subprocess.run(
        [sys.executable, "jobs/mirror.py", "--config", str(config)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert job.returncode == 2, job.stderr
    assert "event=job_failed text=\"Spark's class path lacks the Kafka connector" in job.stderr
    assert all(package in job.stderr for package in PACKAGES.values())
