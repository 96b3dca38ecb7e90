"""The wheel in an empty environment, as ``pip install`` without extras leaves it: without Spark."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replication.cli.main import COMMANDS
from tests.support.bare_environment import make
from tests.support.local import HOME

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = ("jobs", "replication", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
FILE = """
clusters: [A, B]
A.bootstrap.servers: localhost:1
B.bootstrap.servers: localhost:1
A->B: {{enabled: true, topics: orders}}
state.dir: {state}
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a command of the installed wheel; *file* among the arguments is a configuration."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        copy = shutil.copytree if (REPOSITORY / part).is_dir() else shutil.copy
        copy(REPOSITORY / part, folder / part)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "made", "."]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "made").glob("*.whl")
    programs = make(wheel, folder / "environment")
    file = folder / "mirror.yaml"
    file.write_text(FILE.format(state=(folder / "state").as_uri()))

    own = folder / "own.yaml"
    own.write_text(f"{file.read_text()}replication.policy.class: com.acme.Policy\n")
    files = {"file": str(file), "own": str(own)}

    def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = [files.get(word, word) for word in arguments]
        environment = {**os.environ, "REPLICATION_HOME": str(folder / "home"), **environment}
        return subprocess.run(
            [str(programs / "replication"), *words],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return command


def test_the_help_of_all_commands_needs_no_spark(run: Run) -> None:
    done = run("--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("validate file", 0, "is valid: 2 clusters, flows A->B"),
        ("validate own", 0, "class com.acme.Policy was not looked for on the class path: no Kafka"),
        ("keys state.dir", 0, "Where the Delta tables are stored"),
        ("import file", 0, "clusters"),
        ("acls file", 0, "kafka-acls"),
        ("history file", 0, "reason"),
        ("pause file --dry-run", 0, "A->B: pause the whole flow"),
        ("plan file", 3, "listing topics failed: localhost:1: connection refused"),
        ("status file", 8, "No owner was heard: cluster B"),
        ("doctor file --json", 2, "this needs Spark, which is not installed"),
        ("translate file --topic x --partition 0 --offset 1", 8, "has no answer"),
    ],
)
def test_what_asks_files_and_clusters_works_without_spark(
    run: Run, line: str, code: int, said: str
) -> None:
    done = run(*line.split())

    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_spark_says_what_to_install(run: Run) -> None:
    done = run("groups", "file", REPLICATION_HOME=str(HOME))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "this needs Spark, which is not installed: "
        "pip install 'kafka-replication-on-spark[spark]'\n"
    )
