"""A login module of a user's own: its jar is named in CLIENT_JARS, for jobs and commands."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from replication.config.home import connector_jars
from tests.support.commands import replication, spark_submit
from tests.support.local import REPOSITORY, Clusters
from tests.support.mirror_files import write_config
from tests.support.secured import USER, USER_PASSWORD, Secured
from tests.support.topics import copied, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.job, pytest.mark.timeout(600)]

MODULE = "replication.tests.FileLogin"


def jar_of_login_module(folder: Path) -> Path:
    """A jar with the module, and nothing else."""
    classes, jar = folder / "classes", folder / "file-login.jar"
    source = REPOSITORY / "tests" / "java" / "FileLogin.java"
    kafka = ":".join(map(str, connector_jars("kafka-clients-*")))
    command = ["javac", "-cp", kafka, "-d", str(classes), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in classes.rglob("*.class"):
            archive.write(file, file.relative_to(classes))
    return jar


def test_a_login_module_from_a_jar_connects_commands_and_jobs(
    clusters: Clusters,
    secured: Secured,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = clusters[0]
    fill(source, topic_name, 1, 100)
    password = tmp_path / "password"
    password.write_text(USER_PASSWORD)
    target = secured.client("SCRAM")
    target["sasl.jaas.config"] = f'{MODULE} required user="{USER}" file="{password}";'
    both = (source, secured.broker)
    config = write_config(tmp_path, both, topic_name, {"B": target})

    without = replication("plan", config)
    monkeypatch.setenv("CLIENT_JARS", str(jar_of_login_module(tmp_path)))
    plan = replication("plan", config)
    drain = spark_submit(config, "--mode", "drain")

    assert without.returncode == 3
    assert "put the jar with that class into the environment variable CLIENT_JARS" in without.stderr
    assert plan.returncode == 0, plan.stderr
    assert drain.returncode == 0, drain.stdout + drain.stderr
    assert copied(both, topic_name) == 100
