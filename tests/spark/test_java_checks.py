"""What the JVM keeps count of, held by programs in Java: no Spark runs."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest

from replication.config.home import OUR_JAR
from tests.support.local import REPOSITORY, jars

JAVA = shutil.which("java") or "java"


def class_path(classes: Path, *more: Path) -> str:
    """The class path of tests: their *classes*, ours, and those of Spark and its connector."""
    folders = (jars("spark", override="SPARK_JARS"), Path(pyspark.__file__).with_name("jars"))
    return os.pathsep.join(map(str, (classes, OUR_JAR, *more, *(f / "*" for f in folders))))


def compiled(files: Iterable[Path], folder: Path, path: str) -> None:
    subprocess.run([JAVA + "c", "-proc:none", "-cp", path, "-d", folder, *files], check=True)


def test_the_tests_in_java_pass(tmp_path: Path) -> None:
    (junit,) = jars("java", override="JAVA_TEST_JARS").glob("junit-platform-console-*.jar")
    path = class_path(tmp_path, junit)
    tests = sorted((REPOSITORY / "tests" / "java" / "junit").glob("*Test.java"))
    compiled(tests, tmp_path, path)

    ran = subprocess.run(
        [
            *(JAVA, "-cp", path, "org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--scan-classpath", str(tmp_path), "--fail-if-no-tests", "--details=tree"),
            *("--disable-banner", "--disable-ansi-colors"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert all(f"{test.stem} " in ran.stdout for test in tests), ran.stdout


@pytest.mark.parametrize(
    "check",
    [
        pytest.param("producer.PartitionCopyCheck", id="each acknowledged record is reported once"),
        pytest.param("plugin.DriverReportsCheck", id="which reports count and who may still write"),
        pytest.param(
            "calls.OwnerAssignorCheck", id="malformed members neither end nor make an owner"
        ),
    ],
)
def test_a_check_in_java_holds(check: str, tmp_path: Path) -> None:
    path = class_path(tmp_path)
    name = check.rpartition(".")[2]
    compiled([REPOSITORY / "tests" / "java" / f"{name}.java"], tmp_path, path)

    checked = subprocess.run(
        [JAVA, "-cp", path, f"replication.{check}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.stdout == "ok\n", checked.stderr
