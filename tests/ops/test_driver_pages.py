"""A running driver tells over HTTP that it lives, that it is ready, and what it does.

The mirror runs as a user runs it.
"""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from replication.demo.mirror_process import MirrorProcess
from replication.demo.ports import HOST, free_port
from replication.demo.workload import create_topic
from tests.support.commands import start_mirror
from tests.support.flows import unique_flow
from tests.support.kubernetes import MANIFESTS
from tests.support.local import Clusters
from tests.support.mirror_files import write_config
from tests.support.process_tree import family, kill_tree
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]

START_SECONDS = 60.0


def page(port: int, path: str) -> tuple[int, str]:
    """Status and body of a page of the driver; 0 while nothing answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@contextmanager
def running(file: Path, port: int, *arguments: str) -> Iterator[MirrorProcess]:
    """A mirror whose driver answers."""
    mirror = start_mirror(file, file.parent / f"{file.stem}-{port}.log", *arguments)
    try:
        wait_until(lambda: page(port, "/livez")[0], START_SECONDS)
        yield mirror
    finally:
        mirror.discard()


def with_port(file: Path, port: int) -> Path:
    """The configuration at another port."""
    other = file.with_name(f"{port}.yaml")
    other.write_text(f"{file.read_text()}metrics.port: {port}\n")
    return other


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, topic_name: str) -> Path:
    """A mirror of one flow."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    return write_config(tmp_path, clusters, topic_name, flow=unique_flow())


def test_a_driver_and_its_standby_are_alive_and_ready(file: Path) -> None:
    """The standby waits without Spark, and answers all the same; its port is another one."""
    port, other = free_port(), free_port()
    with running(with_port(file, port), port):
        assert page(port, "/livez") == (200, "ok\n")
        wait_until(lambda: page(port, "/readyz")[0] == 200, START_SECONDS)
        (flow,) = json.loads(page(port, "/status")[1])["flows"]
        assert flow["state"] == "running"
        with running(with_port(file, other), other, "--standby"):
            wait_until(lambda: page(other, "/readyz")[0] == 200, START_SECONDS)
            (waiting,) = json.loads(page(other, "/status")[1])["flows"]
            assert (waiting["state"], waiting["flow"]) == ("standby", flow["flow"])
            assert page(other, "/livez")[0] == 200
        assert page(port, "/readyz")[0] == 200
    assert page(port, "/livez")[0] == 0


def test_a_port_that_is_taken_costs_the_view_only(file: Path) -> None:
    port = free_port()
    with running(with_port(file, port), port) as first:
        wait_until(lambda: page(port, "/readyz")[0] == 200, START_SECONDS)
        log = file.with_name("second.log")
        second = start_mirror(with_port(file, port), log, "--job", "heartbeats")
        try:
            wait_until(lambda: "metrics_not_served" in log.read_text(), START_SECONDS)
            second.check()
            first.stop()
            wait_until(lambda: "metrics_served" in log.read_text(), START_SECONDS)
            assert page(port, "/livez")[0] == 200
        finally:
            second.discard()
        assert log.read_text().count("metrics_not_served") == 1


def program(pid: int) -> str:
    """The name of a process's program."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def probe_of(name: str) -> dict[str, Any]:
    """A probe of the manifest for Kubernetes."""
    deployment = yaml.safe_load((MANIFESTS / "overlays/continuous/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container[name])


def is_hung(port: int) -> bool:
    """Whether the kubelet would start the driver again, by the manifest; it waits in between."""
    probe = probe_of("livenessProbe")
    failures = 0
    while failures < probe["failureThreshold"]:
        if page(port, probe["httpGet"]["path"])[0] == 200:
            return False
        failures += 1
        time.sleep(probe["periodSeconds"])
    return True


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_driver_that_hangs_is_started_again(file: Path) -> None:
    """There is no Kubernetes here: the test does what the kubelet does, by the manifest.

    The driver's JVM is paused, so that Python waits for its answer for ever.
    """
    port = free_port()
    with running(with_port(file, port), port) as mirror:
        wait_until(lambda: page(port, "/readyz")[0] == 200, START_SECONDS)
        assert not is_hung(port)
        (jvm,) = [pid for pid in family(mirror.pid) if program(pid) == "java"]
        os.kill(jvm, signal.SIGSTOP)
        wait_until(lambda: page(port, "/livez")[0] == 503, 90.0)
        assert "the loop of the process has not turned" in page(port, "/livez")[1]
        assert is_hung(port)
        kill_tree(mirror.pid)  # as the kubelet does when the grace period is over
    with running(with_port(file, port), port):
        wait_until(lambda: page(port, "/readyz")[0] == 200, START_SECONDS)
        assert not is_hung(port)
