"""The folder of a process's files: held as long as it runs, and removed after its death."""

import subprocess
import sys
from pathlib import Path

import pytest

from replication.app.process import LOCK, hold_run_folder
from replication.config.home import RUN_FOLDER

HOLD = """
import sys
from replication.app.process import hold_run_folder
with hold_run_folder():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_start_removes_what_killed_processes_have_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, living, dead, new = (tmp_path / f"replication-run-{name}" for name in "abcd")
    others = tmp_path / "others"
    for folder in (own, living, dead, new, others):
        folder.mkdir()
    for folder in (dead, others):
        (folder / LOCK).touch()
    monkeypatch.setenv(RUN_FOLDER, str(living))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        monkeypatch.setenv(RUN_FOLDER, str(own))
        with hold_run_folder():
            left = set(tmp_path.iterdir())
        process.kill()

    assert left == {own, living, new, others}, "one that is new has no lock yet"
    with hold_run_folder():
        assert set(tmp_path.iterdir()) == {own, new, others}, "its process was killed"


def test_where_no_script_made_a_folder_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_FOLDER, raising=False)

    with hold_run_folder():
        pass
