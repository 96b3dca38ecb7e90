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
TEST_SECONDS = 60
"""For one test of JUnit, which is interrupted then. Each takes a fraction of a second."""
ALL_SECONDS = 600
"""For all of them: no interrupt ends a loop. What hangs has failed, and is never `Late`."""


def class_path(classes: Path, *more: Path) -> str:
    """The class path of tests: their *classes*, ours, and those of Spark and its connector."""
    folders = (jars("spark", override="SPARK_JARS"), Path(pyspark.__file__).with_name("jars"))
    return os.pathsep.join(map(str, (classes, OUR_JAR, *more, *(f / "*" for f in folders))))


def compiled(files: Iterable[Path], folder: Path, path: str) -> None:
    subprocess.run([JAVA + "c", "-proc:none", "-cp", path, "-d", folder, *files], check=True)


def ended(command: Iterable[str | Path], seconds: int) -> subprocess.CompletedProcess[str]:
    """Runs Java; what has not ended in time shows the stacks of its threads, and is killed."""
    limit = ("timeout", "--signal=QUIT", "--kill-after=5", str(seconds))
    return subprocess.run([*limit, *command], capture_output=True, text=True, check=False)


def junit(classes: Path, seconds: int = TEST_SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs the tests among *classes*, each for at most so many *seconds*."""
    return ended(
        [
            *(JAVA, "-cp", class_path(classes, console())),
            *("org.junit.platform.console.ConsoleLauncher", "execute"),
            *("--scan-classpath", str(classes), "--fail-if-no-tests", "--details=tree"),
            *("--disable-banner", "--disable-ansi-colors"),
            f"--config=junit.jupiter.execution.timeout.default={seconds} s",
        ],
        ALL_SECONDS,
    )


def console() -> Path:
    (found,) = jars("java", override="JAVA_TEST_JARS").glob("junit-platform-console-*.jar")
    return found


def test_the_tests_in_java_pass(tmp_path: Path) -> None:
    tests = sorted((REPOSITORY / "tests" / "java" / "junit").glob("*Test.java"))
    compiled(tests, tmp_path, class_path(tmp_path, console()))

    ran = junit(tmp_path)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert all(f"{test.stem} " in ran.stdout for test in tests), ran.stdout


def test_a_test_in_java_that_hangs_has_failed_and_the_others_still_run(tmp_path: Path) -> None:
    source = tmp_path / "HangsTest.java"
    source.write_text("""
        import org.junit.jupiter.api.Test;
        class HangsTest {
            @Test void waits() throws Exception { Thread.sleep(300_000); }
            @Test void passes() {}
        }""")
    compiled([source], tmp_path, class_path(tmp_path, console()))

    ran = junit(tmp_path, seconds=1)

    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "waits() timed out after 1 second" in ran.stdout
    assert "1 tests successful" in ran.stdout


def test_a_java_program_that_hangs_shows_where_and_is_killed(tmp_path: Path) -> None:
    source = tmp_path / "Hangs.java"
    source.write_text("""
        class Hangs {
            public static void main(String[] arguments) { while (true) Thread.onSpinWait(); }
        }""")

    ran = ended([JAVA, source], 3)

    assert ran.returncode != 0
    assert "Hangs.main" in ran.stdout


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

    checked = ended([JAVA, "-cp", path, f"replication.{check}"], ALL_SECONDS)

    assert checked.stdout == "ok\n", checked.stdout + checked.stderr
