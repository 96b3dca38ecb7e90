"""This project's commands as a user starts them, in processes of their own."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from replication.demo.play import MirrorProcess
from replication.spark.session import QUICK_COMPILER
from tests.support.local import PYTHON, REPOSITORY, SCRIPT

Completed = subprocess.CompletedProcess[str]

# One JIT compiler halves the CPU seconds of a start.
QUICK_START = ("--", "--conf", f"spark.driver.defaultJavaOptions={QUICK_COMPILER}")


def spark_submit(config: Path, *arguments: str) -> Completed:
    """Runs a job through spark-submit.sh and returns when it has ended."""
    return _run(str(SCRIPT), *_job(config, *arguments))


def start_mirror(
    config: Path, log: Path, *arguments: str, spark: Sequence[str] = QUICK_START
) -> MirrorProcess:
    """Starts a job through spark-submit.sh. The caller ends it by ``discard()``.

    Args:
        config: The file.
        log: Gets its output.
        arguments: Of the job.
        spark: ``--``, and arguments of spark-submit.
    """
    return MirrorProcess(SCRIPT, ["--config", str(config), *arguments, *spark], log)


def replication(command: str, config: Path, *arguments: str) -> Completed:
    """Runs ``python -m replication COMMAND CONFIG ...``."""
    return _run(str(PYTHON), "-m", "replication", command, str(config), *arguments)


def _job(config: Path, *arguments: str) -> list[str]:
    return ["--config", str(config), *arguments, *QUICK_START]


def _run(*command: str) -> Completed:
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
