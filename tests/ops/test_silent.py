"""What an operator is told of a flow whose process was killed, paused, taken over or stopped.

The mirror runs as a user runs it; the commands are other processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replication.demo.mirror_process import MirrorProcess
from replication.demo.workload import create_topic
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill_tree, paused
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

START_SECONDS = 60.0
SILENT_SECONDS = 20.0


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, topic_name: str) -> Path:
    """A mirror of one flow."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    return write_config(tmp_path, clusters, topic_name, flow=unique_flow())


@contextmanager
def running(file: Path) -> Iterator[MirrorProcess]:
    """A mirror that has its flow, as ``status`` says."""
    mirror = start_mirror(file, file.with_suffix(".log"))
    try:
        wait_until(lambda: " and has it" in status(file), START_SECONDS)
        yield mirror
    finally:
        mirror.discard()


def status(file: Path) -> str:
    """What the command says of the flow; "" while no state directory is there."""
    result = run("status", file)
    return result.output if result.exit_code == 8 else ok(result).output


@pytest.mark.guarantee
def test_a_killed_process_is_silent_and_one_that_is_paused_too(file: Path) -> None:
    with running(file) as mirror, paused(family(mirror.pid)):
        wait_until(lambda: ": silent" in status(file), SILENT_SECONDS)
        kill_tree(mirror.pid)

    wait_until(lambda: "has no member" in status(file), SILENT_SECONDS)
    assert "last word: " in status(file)


def test_a_process_that_was_stopped_is_not_silent(file: Path) -> None:
    with running(file) as mirror:
        mirror.stop()

    assert " gave it back at " in status(file)
