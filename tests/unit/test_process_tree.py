"""Killing a process with all that it started."""

import subprocess
import sys

from tests.support.process_tree import family, kill, kill_tree, living
from tests.support.waiting import wait_until

# As a JVM does: its main thread is not the one that the process began with.
STARTS_FROM_A_THREAD = """
import subprocess, threading
program = ["sleep", "600"]
threading.Thread(target=lambda: subprocess.Popen(program).wait()).start()
subprocess.Popen(program).wait()
"""


def test_what_another_thread_started_is_killed_too() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_FROM_A_THREAD]) as process:
        try:
            wait_until(lambda: len(family(process.pid)) == 3, 10)
        finally:
            tree = family(process.pid)
            kill_tree(process.pid)
    try:
        wait_until(lambda: living().isdisjoint(tree), 10)
    finally:
        kill(tree)
