"""What every shell file of the repository keeps to."""

import re
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
