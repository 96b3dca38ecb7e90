"""How spark-submit.sh starts a job, and how that ends. Spark is a small script in these tests."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from replication.config.home import OUR_JAR
from tests.support.clone import Clone

STRANGER = "raise SystemExit('a stranger was run')"


def submits(clone: Clone, text: str) -> None:
    clone.program("home/venv/bin/spark-submit", text)


def value_of(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_a_dry_run_prints_the_command(ready: Clone) -> None:
    submits(ready, "echo started; exit 9")

    code, out, err = ready.run(
        "--config", "a.yaml", "--flow", "A->B", "--mode", "drain", "--log-format", "json",
        "--log-level", "debug", "--dry-run", "--", "--conf", "spark.x=a b",
    )  # fmt: skip

    assert (code, err) == (0, "")
    command = shlex.split(out)
    assert value_of(command, "--master") == "local[*]", "counting slots would ask a cluster"
    assert value_of(command, "--driver-class-path") == f"{ready.home}/jars/spark/connector.jar"
    assert value_of(command, "--jars") == str(OUR_JAR)
    assert command[-12:] == [
        *("spark.x=a b", f"{ready.folder}/jobs/mirror.py", "--config", "a.yaml"),
        *("--flow", "A->B", "--mode", "drain", "--log-format", "json"),
        *("--log-level", "debug"),
    ]


def test_nothing_is_imported_from_the_current_folder(ready: Clone) -> None:
    submits(ready, "echo started")
    current = ready.folder / "elsewhere"
    current.mkdir()
    for name in ("argparse", "shlex", "yaml"):
        (current / f"{name}.py").write_text(STRANGER)
    if sys.version_info >= (3, 11):  # where Python can be told so
        (current / "replication").mkdir()  # another checkout
        (current / "replication" / "__init__.py").write_text(STRANGER)

    with ready.start("--config", "a.yaml", current=current) as process:
        out, err = process.communicate(timeout=600)

    assert (process.returncode, out) == (0, "started\n"), err


def test_the_script_is_found_through_a_link_and_nothing_of_another_spark_counts(
    ready: Clone,
) -> None:
    submits(ready, 'echo "started by ${PYTHONPATH-nobody} for ${SPARK_REMOTE-nobody}"')
    folder = ready.folder / "bin"
    folder.mkdir()
    (folder / "second").symlink_to("../spark-submit.sh")
    (folder / "mirror").symlink_to("second")

    done = subprocess.run(
        ["bash", "bin/mirror", "--config=a.yaml"],  # noqa: S607
        cwd=ready.folder, capture_output=True, text=True, check=False,
        env=ready.environment(
            {"CDPATH": ".:/", "PYTHONPATH": "/x", "PYTHONHOME": "/x", "SPARK_REMOTE": "sc://x"}
        ),
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "started by nobody for nobody\n"), done.stderr


def test_what_a_job_has_open_begins_after_the_three_that_every_program_has(ready: Clone) -> None:
    submits(ready, 'readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 >"$REPLICATION_HOME/open"')

    closed = ["bash", "-c", 'exec "$0" "$@" <&- >&- 2>&-', str(ready.folder / "spark-submit.sh")]
    code = subprocess.run(
        [*closed, "--config", "a.yaml"], env=ready.environment({}), check=False
    ).returncode

    assert code == 0
    assert (ready.home / "open").read_text().split() == ["/dev/null"] * 3


def test_a_job_has_a_folder_of_its_own_where_nobody_cleans(ready: Clone) -> None:
    submits(ready, 'echo "$REPLICATION_RUN"; echo "$*"')

    code, out, err = ready.run("--config", "a.yaml", TMPDIR=str(ready.folder))

    folder, command = out.splitlines()
    assert code == 0, err
    assert folder.startswith(f"{ready.home}/scratch/replication-run-")
    assert f" -Djava.io.tmpdir={folder}" in command
    assert list((ready.home / "scratch").iterdir()) == [], "it is removed in the end"


def test_a_folder_that_cannot_be_used_is_refused(ready: Clone) -> None:
    submits(ready, "echo started")

    code, out, err = ready.run("--config", "a.yaml", REPLICATION_SCRATCH="/proc/scratch")

    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "spark-submit.sh: exit code 2: a job needs a folder for its files and native libraries, "
        "and can use none of: /proc/scratch (No such file or directory); name another one in "
        "REPLICATION_SCRATCH"
    )


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

    process: subprocess.Popen[str]
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
