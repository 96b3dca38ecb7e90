"""What an operator is told of a flow whose process was killed, paused, taken over or stopped.

The mirror runs as a user runs it; the commands are other processes.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replication.config.file import load_config
from replication.demo.play import MirrorProcess
from replication.demo.workload import create_topic
from replication.figures.observation import Observation
from replication.figures.status_store import Holder
from replication.flows.publisher import FlowPublisher
from replication.model import Flow
from tests.support.cli import ok, run
from tests.support.commands import start_mirror
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill_tree, paused, program
from tests.support.two_machines import write_two_configs
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

START_SECONDS = 60.0
SILENT_SECONDS = 20.0
TAKEOVER_SECONDS = 60.0


@pytest.fixture
def flow() -> Flow:
    """A flow that no other test has."""
    return unique_flow()


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow) -> Path:
    """A mirror of one flow."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    return write_config(tmp_path, clusters, topic_name, flow=flow)


@contextmanager
def running(file: Path, *arguments: str) -> Iterator[MirrorProcess]:
    """A mirror of *file*."""
    mirror = start_mirror(file, file.with_suffix(".log"), *arguments)
    try:
        yield mirror
    finally:
        mirror.discard()


def state(file: Path) -> str:
    """What the command says that the flow does; "" while nothing is known of it."""
    result = run("status", file, "--json")
    if result.exit_code == 8:
        return ""
    (shown,) = json.loads(ok(result).stdout)["flows"]
    return str(shown["state"])


def owner(file: Path) -> object:
    """The process that the last word is of; None before the first."""
    (shown,) = json.loads(ok(run("status", file, "--json")).stdout)["flows"]
    by = (shown["last_word"] or {}).get("owner") or {}
    return by.get("pid")


def check(file: Path) -> tuple[int, str]:
    """The exit code of ``status --check``, and its line."""
    result = run("status", file, "--check")
    (line,) = result.stdout.splitlines()
    return result.exit_code, line


def kill_jvm(mirror: MirrorProcess) -> None:
    """Kills the driver's JVM, as a machine without memory does; its Python is left."""
    (jvm,) = [pid for pid in family(mirror.pid) if program(pid) == "java"]
    os.kill(jvm, signal.SIGKILL)


@pytest.mark.guarantee
def test_a_process_that_is_paused_or_killed_is_silent_from_wherever_one_looks(
    file: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(file.read_text().replace("/state", "/no-such-state"))
    with running(file) as mirror:
        wait_until(lambda: state(elsewhere) == "running", START_SECONDS)
        assert check(file)[0] == 0
        with paused(family(mirror.pid)):
            wait_until(lambda: state(file) == "silent", SILENT_SECONDS)
            kill_tree(mirror.pid)

    wait_until(lambda: "no process holds the lease" in check(elsewhere)[1], SILENT_SECONDS)
    code, line = check(file)
    assert (code, line.partition(":")[0]) == (9, "CRITICAL")
    assert "last word: running on " in line


def test_a_process_that_was_stopped_has_said_so(file: Path) -> None:
    with running(file) as mirror:
        wait_until(lambda: state(file) == "running", START_SECONDS)
        mirror.stop()

    assert state(file) == "stopped"
    code, line = check(file)
    assert code == 0
    assert "exit code 0" in line


def test_a_flow_is_heard_whose_state_directory_has_begun_anew(file: Path, flow: Flow) -> None:
    """What another one has said ended well, and in the 57th lease: this one's is the first."""
    before = Observation(flow, time.time(), "stopped", time.time(), ended_at=time.time())
    publisher = FlowPublisher(load_config(str(file)).flows[0])
    publisher.publish(before, {"records": Holder(57, "m57", "w", since=time.time())})
    publisher.close()
    assert state(file) == "stopped"

    with running(file) as mirror:
        wait_until(lambda: state(file) == "running", START_SECONDS)
        assert check(file)[0] == 0
        kill_jvm(mirror)
        wait_until(lambda: state(file) == "failed", SILENT_SECONDS)
    code, line = check(file)
    assert (code, "the driver's JVM ended without a word" in line) == (9, True)


@pytest.mark.parametrize("job", ["checkpoints", "metadata", "heartbeats"])
def test_a_job_that_looks_once_a_minute_says_soon_that_its_jvm_was_killed(
    file: Path, job: str
) -> None:
    with running(file, "--job", job) as mirror:
        wait_until(lambda: state(file) == "running", START_SECONDS)
        kill_jvm(mirror)
        wait_until(lambda: state(file) == "failed", SILENT_SECONDS)


@pytest.mark.soak
def test_a_takeover_shows_the_new_owner(
    clusters: Clusters, tmp_path: Path, topic_name: str, flow: Flow
) -> None:
    create_topic(clusters[0].bootstrap, topic_name, 1)
    first, second = write_two_configs(tmp_path, clusters, topic_name, {}, flow)
    with running(first) as active, running(second, "--standby") as standby:
        wait_until(lambda: owner(first), START_SECONDS)
        wait_until(lambda: "lease_awaited" in standby.log.read_text(), START_SECONDS)
        before = owner(first)
        kill_tree(active.pid)
        wait_until(lambda: state(second) == "silent", SILENT_SECONDS)
        wait_until(lambda: owner(second) not in (before, None), TAKEOVER_SECONDS)

        wait_until(lambda: state(second) == "running", START_SECONDS)
