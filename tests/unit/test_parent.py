"""A job stops when its script has ended, and not when nobody can tell."""

import os
import subprocess
import sys

import pytest

from replication.app.process import is_lost


@pytest.fixture
def ended() -> str:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return str(process.pid)


def test_an_unknown_parent_is_no_dead_parent() -> None:
    script = str(os.getpid())

    assert not is_lost(None, script)
    assert not is_lost(script, script)


def test_a_script_that_has_ended_is_lost_also_where_the_parent_is_unknown(ended: str) -> None:
    assert is_lost(None, ended)
    assert is_lost("1", ended), "the job has another parent"


def test_another_parent_means_that_the_script_has_ended_although_its_id_is_taken_again() -> None:
    assert is_lost("1", str(os.getpid()))
