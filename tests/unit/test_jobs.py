"""One table lists what each job runs, and every job has its file."""

from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

from replication.app.run import run
from replication.cli.jobs import job_command, wheel_task
from replication.model import PARTS, RECORDS, Job, Part, runs

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_job_has_a_file_and_its_parts() -> None:
    files = {file.stem for file in (REPOSITORY / "jobs").glob("*.py")}

    assert files == set(get_args(Job)) == set(PARTS)


def test_spark_submit_knows_the_same_jobs() -> None:
    script = (REPOSITORY / "spark-submit.sh").read_text(encoding="utf-8")

    assert f"\n    {' | '.join(get_args(Job))}) ;;\n" in script
    assert f"[--job {'|'.join(get_args(Job))}]" in script


@pytest.mark.parametrize(
    ("job", "parts"),
    [
        ("mirror", {"records", "checkpoints", "heartbeats", "metadata"}),
        ("replicate", {"records"}),
        ("checkpoints", {"checkpoints"}),
        ("heartbeats", {"heartbeats"}),
        ("metadata", {"metadata"}),
    ],
)
def test_a_job_runs_its_parts_only(job: Job, parts: set[Part]) -> None:
    assert {part for part in get_args(Part) if runs(job, part)} == parts
    assert (job in RECORDS) == ("records" in parts)


def test_the_options_of_a_job_are_the_arguments_of_the_application() -> None:
    options = {parameter.name for parameter in job_command("mirror").params}

    assert {*options, "job"} == {*signature(run).parameters}


def test_a_wheel_task_takes_targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n")
    words = ["replication-job", "--job", "mirror", "--config", str(file), "--clusters", "B,C"]
    monkeypatch.setattr("sys.argv", words)

    with pytest.raises(RuntimeError, match="--clusters: unknown cluster 'C'; clusters: A, B"):
        wheel_task()


def test_a_wheel_task_raises_where_a_job_would_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "/nowhere/mirror.yaml"
    monkeypatch.setattr("sys.argv", ["replication-job", "--job", "mirror", "--config", missing])

    with pytest.raises(RuntimeError, match=f"exit code 2: .*{missing}"):
        wheel_task()


def test_a_wheel_task_needs_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["replication-job", "--config", "mirror.yaml"])

    with pytest.raises(ValueError, match="must be --job, one of mirror, "):
        wheel_task()
