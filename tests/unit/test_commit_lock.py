"""One thread of one process at a time commits to a table."""

import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from replication.errors import StateError
from replication.state.locks import hold_commit_lock
from tests.support.waiting import wait_until

ROUNDS = 100

COUNTER = """
import sys
from pathlib import Path
from replication.state.locks import hold_commit_lock
lock, counter, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
for _ in range(rounds):
    with hold_commit_lock(lock):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def test_no_write_of_several_processes_is_lost(tmp_path: Path) -> None:
    lock, counter = tmp_path / "lock", tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", COUNTER, str(lock), str(counter), str(ROUNDS)]
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(command)) for _ in range(3)]

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert counter.read_text() == str(3 * ROUNDS)


def test_no_write_of_several_threads_is_lost(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count() -> None:
        for _ in range(ROUNDS):
            with hold_commit_lock(tmp_path / "lock"):
                counter.write_text(str(int(counter.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not any(thread.is_alive() for thread in threads), 30)

    assert counter.read_text() == str(3 * ROUNDS)


def test_a_process_that_never_ends_its_commit_is_named(tmp_path: Path) -> None:
    program = COUNTER.replace("counter.write_text", "print('in', flush=True); input")
    counter = tmp_path / "counter"
    counter.write_text("0")
    command = [sys.executable, "-c", program, str(tmp_path / "lock"), str(counter), "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"

        expected = pytest.raises(StateError, match=rf"held by .*, process {other.pid}, since")
        with expected, hold_commit_lock(tmp_path / "lock", timeout_seconds=0.1):
            pass
        other.kill()
