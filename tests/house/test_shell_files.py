"""What every shell file of the repository keeps to."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.local import REPOSITORY

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


def test_the_help_of_the_tests_sets_nothing_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [REPOSITORY / "tests" / "run.sh", "--help"], check=True, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "REPLICATION_HOME": str(tmp_path / "home")},
    )  # fmt: skip

    assert "quick runs lint, types" in done.stdout
    assert not (tmp_path / "home").exists()


def test_the_quick_run_holds_the_pages_to_the_code() -> None:
    program = (REPOSITORY / "tests" / "run.sh").read_text().partition("= quick ]")[2]

    assert "pytest" in program.partition("exit")[0]
    assert "tests/unit tests/house" in program.partition("exit")[0]
    assert (
        "run.sh quick` says what is missing"
        in (REPOSITORY / ".github" / "CONTRIBUTING.md").read_text()
    )
