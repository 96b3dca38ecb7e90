"""The front door, spark-submit.sh: one clear line when set-up cannot be done, and how a run ends.

Each test has a copy of the files set-up reads, as a fresh clone has them. Programs that must be
missing, too old or slow are small scripts; what is tested is the shell around them.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from replication.config.home import OUR_JAR

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = (
    "spark-submit.sh",
    "setup.cfg",
    "pyproject.toml",
    "conf/set-up.sh",
    "conf/constraints.txt",
    "conf/jars.xml",
    "conf/log4j2.properties",
    "replication/jvm/PreserveTimestamps.java",
)
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
# Programs inherit ignored signals: nohup, and `&` in a script, would change what is tested.
LAUNCHER = """
import os, signal, sys
ignored = [int(number) for number in sys.argv[1].split()]
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
CLOSED = "http://127.0.0.1:9"  # the discard port: nothing listens there


@dataclass(frozen=True)
class Clone:
    """A fresh clone beside an empty local environment."""

    folder: Path

    @property
    def home(self) -> Path:
        """The local environment."""
        return self.folder / "home"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """This process's variables without those that set-up reads, and *more*."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "REPLICATION_", "JAVA_", "MASTER", "DEPLOY_MODE"))
        }
        own = {
            "REPLICATION_HOME": str(self.home),
            "REPLICATION_CACHE": str(self.folder / "cache"),
            "PYTHON": sys.executable,
        }
        return {**kept, **own, **more}

    def start(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        ignored: Sequence[signal.Signals] = (),
    ) -> "subprocess.Popen[str]":
        """Starts the script, whose caller ignores the signals *ignored* and no others."""
        script = str(self.folder / "spark-submit.sh")
        ignores = " ".join(str(int(number)) for number in ignored)
        return subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, ignores, script, *arguments],
            env=self.environment(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with self.start(*arguments, environment=environment) as process:
            out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    def program(self, path: str, text: str) -> Path:
        """A program in place of a real one; its folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{text}\n")
        file.chmod(0o755)
        return file.parent


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return Clone(tmp_path)


@pytest.fixture
def ready(clone: Clone) -> Clone:
    """A clone whose set-up is done, with programs in the place of Python and Spark."""
    python = f"""case "$*" in
      *'replication slots wrong.yaml --start'*) echo wrong >&2; exit 2 ;;
      *'replication validate'*) ;;
      *'replication slots'*) [ "$4" != unreachable.yaml ] || exit 3; echo 14 ;;
      *) exec '{sys.executable}' "$@" ;;
    esac"""
    clone.program("home/venv/bin/python", python)
    stamps = """
      repo=$1 && source "$repo/conf/set-up.sh" && mkdir "$home/ready" && find_java
      stamp spark "$(packages_made_from)" && stamp jars-spark "$(jars_made_from)"
      stamp class-archive "$(archive_made_from "$(packages_made_from)" "$(jars_made_from)")" """
    subprocess.run(
        ["bash", "-euc", stamps, "bash", str(clone.folder)],  # noqa: S607
        env=clone.environment({}),
        check=True,
    )
    (clone.folder / "replication/jvm/preserve-timestamps.jar").write_bytes(b"newer than its source")
    (clone.home / "jars/spark").mkdir(parents=True)
    (clone.home / "jars/spark/connector.jar").touch()
    return clone


def submits(clone: Clone, text: str) -> None:
    clone.program("home/venv/bin/spark-submit", text)


def value_of(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--config"], "--config needs a value", id="no file"),
        pytest.param(["--confg", "a.yaml"], "unknown argument '--confg'", id="unknown"),
        pytest.param(
            ["--mode", "drain"],
            "--flow, --clusters, --mode, --log-format, --standby and",
            id="no --config",
        ),
        pytest.param(["--keep", "--config", "a.yaml"], "--keep belongs to the demo", id="keep"),
        pytest.param(["--setup", "kafka"], "--setup takes dev, bench, mm2", id="unknown set-up"),
        pytest.param(["--build"], "--build needs one folder", id="no folder to build"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(
    clone: Clone, arguments: list[str], problem: str
) -> None:
    code, out, err = clone.run(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith(f"spark-submit.sh: {problem}")
    assert "Usage:" in err
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
    assert (with_dev.home / "pip-calls").read_text().rstrip().endswith("[spark,dev,bench]")
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


def test_a_dry_run_prints_the_command(ready: Clone) -> None:
    submits(ready, "echo started; exit 9")

    code, out, err = ready.run(
        "--config", "a.yaml", "--flow", "A->B", "--mode", "drain", "--log-format", "json",
        "--dry-run", "--", "--conf", "spark.x=a b",
    )  # fmt: skip

    assert (code, err) == (0, "")
    command = shlex.split(out)
    assert value_of(command, "--master") == "local[*]", "counting slots would ask a cluster"
    assert value_of(command, "--driver-class-path") == f"{ready.home}/jars/spark/connector.jar"
    assert value_of(command, "--jars") == str(OUR_JAR)
    assert command[-10:] == [
        *("spark.x=a b", f"{ready.folder}/jobs/mirror.py", "--config", "a.yaml"),
        *("--flow", "A->B", "--mode", "drain", "--log-format", "json"),
    ]


def test_a_job_uses_the_class_archive(ready: Clone) -> None:
    archive = ready.home / "class-archive"
    archive.mkdir()
    (archive / "class-path").write_text("a.jar:b.jar")
    (archive / "java-options").write_text("-XX:SharedArchiveFile=classes.jsa")

    _, out, _ = ready.run("--config", "a.yaml", "--dry-run")

    command = shlex.split(out)
    assert value_of(command, "--driver-class-path") == "a.jar:b.jar", "as the archive has it"
    assert value_of(command, "--driver-java-options").endswith(" -XX:SharedArchiveFile=classes.jsa")


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_options_of_the_environment_do_not_ask_for_another_archive(
    ready: Clone, variable: str
) -> None:
    submits(ready, "echo started")

    code, out, err = ready.run("--config", "a.yaml", **{variable: "-Da=b"})

    assert (code, out) == (0, "started\n")
    assert "preparing a quicker start" not in err


def test_without_a_class_archive_a_job_starts_all_the_same(ready: Clone) -> None:
    (ready.home / "ready/class-archive").unlink()
    submits(ready, "echo started")

    code, out, err = ready.run("--config", "a.yaml")

    assert (code, out) == (0, "started\n")
    assert "jobs will start slower: Java left no archive of Spark's classes" in err
    assert not (ready.home / "class-archive").exists()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param("wrong.yaml", 2, id="invalid"),
        pytest.param("unreachable.yaml", 3, id="no cluster"),
    ],
)
def test_a_refused_configuration_starts_no_spark(ready: Clone, file: str, expected: int) -> None:
    submits(ready, "echo started")

    code, out, _ = ready.run("--config", file)

    assert (code, out) == (expected, "")


def test_the_exit_code_is_the_jobs(ready: Clone) -> None:
    submits(ready, "exit 5")

    code, _, _ = ready.run("--config", "a.yaml")

    assert code == 5


@dataclass(frozen=True)
class Job:
    """A job that the script has started."""

    process: "subprocess.Popen[str]"
    ways_to_stop: str

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal, and returns once the script has said that it stops the job."""
        assert self.process.stderr is not None
        self.process.send_signal(number)
        assert (
            self.process.stderr.readline()
            == "spark-submit.sh: stopping; a second signal, or 60 s, kills it\n"
        )

    def end(self) -> tuple[int, str, str]:
        """Exit code and the rest of both outputs, once no process holds these open."""
        out, err = self.process.communicate(timeout=180)
        return self.process.returncode, out, err


@contextmanager
def running(
    clone: Clone, text: str, *arguments: str, ignored: Sequence[signal.Signals] = ()
) -> Iterator[Job]:
    """A job that has printed a line; *text* is what it does then."""
    submits(clone, f"echo running; {text}")
    with clone.start("--config", "a.yaml", *arguments, ignored=ignored) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "running\n"
        yield Job(process, process.stderr.readline())


UNTIL_ASKED = """
    trap 'echo flushed' EXIT
    for _ in {1..200}; do [ ! -e "$REPLICATION_STOP_FILE" ] || exit 0; sleep 0.1; done
    exit 9
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_the_job_to_stop(ready: Clone, number: signal.Signals) -> None:
    with running(ready, UNTIL_ASKED) as job:
        job.stop(number)

        assert job.end() == (0, "flushed\n", "")


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param([signal.SIGHUP], id="nohup"),
        pytest.param([signal.SIGINT], id="in the background of a script"),
        pytest.param([signal.SIGHUP, signal.SIGINT], id="both"),
    ],
)
def test_a_job_that_ignores_signals_on_entry_stops_on_sigterm(
    ready: Clone, ignored: list[signal.Signals]
) -> None:
    with running(ready, UNTIL_ASKED, ignored=ignored) as job:
        for number in ignored:
            job.process.send_signal(number)
        job.stop(signal.SIGTERM)

        assert job.end() == (0, "flushed\n", "")


@pytest.mark.parametrize(
    ("arguments", "ignored", "keys", "options"),
    [
        pytest.param([], [], "Ctrl-C, ", "", id="in a terminal"),
        pytest.param([], [signal.SIGINT], "", "", id="in the background"),
        pytest.param(
            ["--job", "checkpoints", "--flow", "A->B"],
            *([], "Ctrl-C, ", " --flow A-\\>B --job checkpoints"),
            id="one job of one flow",
        ),
    ],
)
def test_a_job_says_what_stops_it(
    ready: Clone, arguments: list[str], ignored: list[signal.Signals], keys: str, options: str
) -> None:
    with running(ready, "exit 0", *arguments, ignored=ignored) as job:
        assert job.ways_to_stop == (
            f"spark-submit.sh: to stop this job: {keys}kill {job.process.pid}, or: "
            f"{ready.home}/venv/bin/python -m replication stop a.yaml{options}\n"
        )


def test_a_second_signal_ends_the_job_and_all_it_started(ready: Clone) -> None:
    with running(ready, "sleep 60 & wait") as job:
        job.stop(signal.SIGTERM)
        job.process.send_signal(signal.SIGTERM)

        # Ends only when no process holds the outputs open, so the grandchild is gone too.
        code, _, err = job.end()

    assert code == 128 + signal.SIGKILL
    assert "was killed; starting it again is safe" in err


SHELL_FILES = sorted(
    file
    for pattern in ("*.sh", "conf/**/*.sh", "tests/**/*.sh", ".ci/run")
    for file in REPOSITORY.glob(pattern)
)
# With pipefail such a reader fails a pipe now and then: it ends before the writer has written all.
READS_A_PART = re.compile(r"\|\s*(grep\s+-\w*[qm]|head\b|sed\s.*\bq\b)")


@pytest.mark.parametrize("file", SHELL_FILES, ids=lambda file: file.name)
def test_no_shell_file_pipes_into_a_reader_that_ends_early(file: Path) -> None:
    lines = file.read_text().splitlines()

    assert [line for line in lines if READS_A_PART.search(line)] == []
