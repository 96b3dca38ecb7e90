"""Real runs of pytest with the gate, of small tests on machines that are fed to the clock."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.local import REPOSITORY

CRAWLING = """
import os
from tests.support.gate import clock
clock.look = lambda: clock.Machine(runnable=10 * os.cpu_count())
"""
CALM = """
from tests.support.gate import clock
clock.look = clock.Machine
"""
TESTS = """
from pathlib import Path
from tests.support.waiting import wait_until

def test_right():
    pass

def test_late():
    wait_until(lambda: False, 0.05)

def test_late_once():
    before = Path("ran")
    is_again, _ = before.exists(), before.touch()
    wait_until(lambda: is_again, 0.05)
"""
SKIPS_A_GUARANTEE = """
import pytest

@pytest.mark.guarantee
def test_guarantee():
    pytest.skip("its jars are missing")
"""
LOSES_A_RECORD = """
def test_records():
    assert [1, 2, 4] == [1, 2, 3, 4]
"""


def run(folder: Path, machine: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs *text*; every process of pytest measures *machine*, which is a plugin."""
    (folder / "test_small.py").write_text(text)
    (folder / "machine.py").write_text(machine)
    options = f"-p machine -p tests.conftest -p no:cacheprovider --rootdir={folder}"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--gate=all", *arguments, "test_small.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_ADDOPTS": f"{options} -c {REPOSITORY}/setup.cfg",
            "PYTHONPATH": f"{REPOSITORY}:{folder}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_that_crawls_is_not_red(tmp_path: Path) -> None:
    done = run(tmp_path, CRAWLING, TESTS, "-n", "2")

    assert done.returncode == 0, done.stdout
    assert "decided 1, late and then passed 1, not decided 1, quarantined 0" in done.stdout
    assert "LATE test_small.py::test_late 0." in done.stdout
    last = done.stdout.splitlines()[-1]
    for count in ("1 passed", "1 late and then passed", "1 not decided"):
        assert count in last


def test_a_lost_record_and_a_skipped_guarantee_are_red_on_a_machine_that_crawls(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, CRAWLING, TESTS + LOSES_A_RECORD + SKIPS_A_GUARANTEE)

    assert done.returncode == 1, done.stdout
    assert "RED: 1 failed" in done.stdout
    assert "1 failed" in done.stdout.splitlines()[-1]
    assert done.stdout.count("test_records") >= 1
    assert "NOT DECIDED test_small.py::test_guarantee: skipped" in done.stdout
    assert "RED: only 0 of 1 guarantees were decided" in done.stdout


def test_on_a_calm_machine_what_is_late_has_failed_and_does_not_run_again(tmp_path: Path) -> None:
    done = run(tmp_path, CALM, TESTS)

    assert done.returncode == 1, done.stdout
    assert "decided 3, late and then passed 0, not decided 0" in done.stdout
    assert "runs once more" not in done.stdout


def test_what_is_interrupted_when_it_runs_again_has_not_passed(tmp_path: Path) -> None:
    interrupted = """
def test_late_and_interrupted():
    if Path("began").exists():
        raise KeyboardInterrupt
    Path("began").touch()
    wait_until(lambda: False, 0.05)
"""

    done = run(tmp_path, CRAWLING, TESTS.partition("def test_late():")[0] + interrupted)

    assert "decided 1, late and then passed 0, not decided 1" in done.stdout
    assert done.returncode == 0, done.stdout


def test_what_is_not_run_for_lack_of_time_is_counted(tmp_path: Path) -> None:
    done = run(tmp_path, CRAWLING, TESTS, "--until", "1")

    assert "decided 0, late and then passed 0, not decided 3 (3 not run)" in done.stdout
    assert "= 3 not run in" in done.stdout.splitlines()[-1]
    assert done.returncode == 1, "no test passed"


def test_the_end_of_the_run_ends_what_runs(tmp_path: Path) -> None:
    hangs = "import time\ndef test_hangs():\n    time.sleep(300)\ndef test_right():\n    pass\n"

    done = run(tmp_path, CRAWLING, hangs, "--hard-end", "1")

    assert done.returncode == 0, done.stdout
    assert "decided 1, late and then passed 0, not decided 1" in done.stdout


def test_a_test_that_sets_the_clock_ends_no_run(tmp_path: Path) -> None:
    sets = (
        "import time\n"
        "def test_sets(monkeypatch):\n"
        "    real = time.time\n"
        "    monkeypatch.setattr(time, 'time', lambda: real() + 3600)\n"
        "    time.sleep(6)\n"  # the gate looks every 5 s
    )

    done = run(tmp_path, CALM, sets, "--hard-end", f"{time.time() + 600}")

    assert "1 passed" in done.stdout, done.stdout
