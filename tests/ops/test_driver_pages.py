"""A running driver tells over HTTP that it lives, that it is ready, and what it does.

The mirror runs as a user runs it.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from replication.demo.brokers import free_port
from tests.support.commands import start_mirror
from tests.support.driver import START_SECONDS, page, running, with_port
from tests.support.kubernetes import MANIFESTS
from tests.support.process_tree import family, kill_tree, program
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.job]


def test_a_driver_and_its_standby_are_alive_and_ready(file: Path) -> None:
    """The standby waits, and answers all the same; its port is another one."""
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
