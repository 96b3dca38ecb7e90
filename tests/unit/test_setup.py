"""Set-up by spark-submit.sh: one clear line when it cannot be done.

Each test has a copy of the files set-up reads, as a fresh clone has them. Programs that must be
missing or too old are small scripts; what is tested is the shell around them.
"""

import re
import shutil
import sys

import pytest

from tests.support.clone import Clone

TOOLS = (
    "bash",
    "cat",
    "cksum",
    "dirname",
    "env",
    "grep",
    "head",
    "mkdir",
    "mv",
    "rm",
    "sed",
    "tail",
)
CLOSED = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--config"], "--config needs a value", id="no file"),
        pytest.param(["--confg", "a.yaml"], "unknown argument '--confg'", id="unknown"),
        pytest.param(
            ["--mode", "drain"],
            "--flow, --clusters, --mode, --log-format, --log-level, --standby, --serve and",
            id="no --config",
        ),
        pytest.param(["--keep", "--config", "a.yaml"], "--keep belongs to the demo", id="keep"),
        pytest.param(
            ["--setup", "kafka"],
            "--setup takes dev, bench, docker, site, serve",
            id="unknown set-up",
        ),
        pytest.param(["--build"], "--build needs one folder", id="no folder to build"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(
    clone: Clone, arguments: list[str], problem: str
) -> None:
    code, out, err = clone.run(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith("Usage:")
    assert err.splitlines()[-1].startswith(f"spark-submit.sh: exit code 2: {problem}")
    assert not clone.home.exists()


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        pytest.param(
            'openjdk version "11.0.20"', "is Java 11, Spark 4.2 runs on 17 to 25", id="old"
        ),
        pytest.param('java version "1.8.0_312"', "is Java 8, Spark 4.2 runs on 17 to 25", id="8"),
        pytest.param('openjdk version "26"', "is Java 26, Spark 4.2 runs on 17 to 25", id="new"),
        pytest.param("No Java runtime present", "no Java at '", id="macOS placeholder"),
        pytest.param('openjdk version "21.0.1"', "this Java has no compiler", id="no compiler"),
    ],
)
def test_a_java_that_cannot_be_used(clone: Clone, version: str, problem: str) -> None:
    java_home = clone.program("jdk/bin/java", f"echo '{version}' >&2").parent

    code, out, err = clone.run("--setup", JAVA_HOME=str(java_home))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert problem in err
    assert "install a JDK 17 or 21, or set JAVA_HOME to one" in err


def test_no_java_at_all(clone: Clone) -> None:
    tools = clone.folder / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(str(shutil.which(tool)))

    code, _, err = clone.run("--setup", PATH=str(tools))

    assert (code, err.count("\n")) == (2, 1)
    assert "no Java at 'java'; install a JDK 17 or 21, or set JAVA_HOME to one" in err


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        pytest.param("exit 1", "no Python >= 3.10 among: ", id="too old"),
        pytest.param('[[ "$2" != *ensurepip* ]]', "has no venv module; install it", id="no venv"),
    ],
)
def test_a_python_that_cannot_be_used(clone: Clone, python: str, problem: str) -> None:
    folder = clone.program("bin/python3", python)

    code, _, err = clone.run("--setup", PYTHON=str(folder / "python3"))

    assert (code, err.count("\n")) == (2, 1)
    assert problem in err


def test_packages_without_a_network(clone: Clone) -> None:
    code, _, err = clone.run("--setup", PIP_INDEX_URL=CLOSED, PIP_RETRIES="0")

    assert code == 2
    assert "cannot install the Python packages (no network" in err.splitlines()[-1]
    assert str(clone.home / "log/pip") in err.splitlines()[-1]
    assert not (clone.home / "ready/spark").exists()


@pytest.fixture
def with_dev(ready: Clone) -> Clone:
    """A ready clone with the packages of the tests, whose pip writes down its calls."""
    pip = """case "$*" in
      *'-m pip '*) echo "$*" >>"$REPLICATION_HOME/pip-calls" && exit "${PIP_CODE:-0}" ;;"""
    python = ready.home / "venv/bin/python"
    python.write_text(python.read_text().replace('case "$*" in', pip, 1))
    for stamp, like in (("dev", "spark"), ("jars-kafka", "jars-spark")):
        shutil.copy(ready.home / "ready" / like, ready.home / "ready" / stamp)
    return ready


def test_what_is_installed_stays_when_more_is_asked_for(with_dev: Clone) -> None:
    code, _, err = with_dev.run("--setup", "bench")

    assert code == 0, err
    calls = (with_dev.home / "pip-calls").read_text().splitlines()
    locks = [re.findall(r"conf/lock/(\w+)\.txt", call) for call in calls]
    assert locks == [["build"], ["spark", "dev", "bench"], []]
    assert ["--require-hashes" in call for call in calls] == [True, True, False]
    assert "--no-deps" in calls[-1], "nothing without a digest comes with the project itself"
    stamps = {name: (with_dev.home / "ready" / name).read_text() for name in ("spark", "dev")}
    assert set(stamps.values()) == {(with_dev.home / "ready/bench").read_text()}


def test_packages_that_cannot_be_added_leave_the_others_ready(with_dev: Clone) -> None:
    code, _, err = with_dev.run("--setup", "bench", PIP_CODE="1")

    assert (code, "cannot install the Python packages" in err) == (2, True)
    assert not (with_dev.home / "ready/bench").exists()
    assert with_dev.run("--setup", "dev", PIP_CODE="1")[0] == 0, "nothing is left to install"


def test_jars_without_a_network(ready: Clone) -> None:
    (ready.home / "ready/jars-spark").unlink()
    shutil.rmtree(ready.home / "venv")
    (ready.home / "venv").symlink_to(sys.prefix)
    no_proxy = "-Dhttp.nonProxyHosts= -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"

    code, _, err = ready.run("--config", "a.yaml", JAVA_TOOL_OPTIONS=no_proxy)

    assert code == 2
    assert "cannot fetch the JVM jars of 'spark' (no network" in err.splitlines()[-1]
    assert not (ready.home / "ready/jars-spark").exists()
